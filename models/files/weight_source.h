#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/hash.h"
#include "kernels/core/tensor.h"
#include "models/files/safetensors.h"

namespace troupe::models {

/// A tensor that a model expects.
struct TensorSpec {
  std::string name;
  Shape shape;
  /// A file may store the matrix as a 1×1 convolution (older checkpoints do).
  bool may_be_convolution = false;
};

/// Where a model's weights come from: files or random numbers. The name and
/// bytes of every tensor that is read enter the hash. Thread: one.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// True when the tensor exists.
  [[nodiscard]] virtual bool has(std::string_view name) const = 0;
  /// Checks that every tensor exists with its shape, before memory is
  /// allocated. `specs` stand in reading order: the next tensors are fetched
  /// while one is packed. Errors: Errc::corrupt_file (files that do not belong
  /// together are one broken checkpoint), Errc::unsupported (a dtype).
  virtual void check(std::span<const TensorSpec> specs) = 0;

  /// Reads one tensor as stored (f32, bf16 or f16).
  [[nodiscard]] Tensor read(const TensorSpec& spec);
  /// The same, as f32.
  [[nodiscard]] Tensor read_f32(const TensorSpec& spec);
  /// Reads tensors that agree in all but the first extent, and concatenates
  /// them along it.
  [[nodiscard]] Tensor read_concatenated(std::span<const TensorSpec> specs);
  /// The same for weights that are packed at once and then let go of: the next
  /// call uses their memory again, unless the tensor lives.
  [[nodiscard]] Tensor read_to_pack(std::span<const TensorSpec> specs);

  /// XXH3-64 of all that was read so far.
  [[nodiscard]] std::uint64_t hash() const { return hash_.digest(); }

  /// Notes from now on the hash of each tensor that is read: XXH3-64 of its
  /// bytes and its name.
  void note_tensors() { notes_tensors_ = true; }
  /// Those, in the order of reading.
  [[nodiscard]] const std::vector<std::uint64_t>& tensor_hashes()
      const noexcept {
    return tensor_hashes_;
  }
  /// From now on a tensor is read only if its hash is in `tensor_hashes`
  /// (sorted; must outlive this object). So a process that reads a part of a
  /// network knows that the part belongs to the right network. Errors on
  /// reading: Errc::invalid_argument for a tensor with another hash.
  void hold_to(std::span<const std::uint64_t> tensor_hashes) {
    held_to_ = tensor_hashes;
  }

 protected:
  [[nodiscard]] virtual DType stored_dtype(std::string_view name) const = 0;
  virtual void fill(const TensorSpec& spec, Tensor& out) = 0;

 private:
  /// Of tensors that are concatenated.
  struct Whole {
    Shape shape;
    DType dtype;
  };
  [[nodiscard]] Whole whole_of(std::span<const TensorSpec> specs) const;
  void read_parts(std::span<const TensorSpec> specs, Tensor& all);
  void fill_and_hash(const TensorSpec& spec, Tensor& out);

  /// The tensor's own hash: notes it, holds it to what is wanted.
  void see_tensor(const std::string& name, std::span<const std::byte> bytes);

  Xxh3Stream hash_;
  bool notes_tensors_ = false;
  std::vector<std::uint64_t> tensor_hashes_;
  std::optional<std::span<const std::uint64_t>> held_to_;
  Tensor scratch_;  ///< u8, of read_to_pack
};

/// Weights of a checkpoint. The threads of the pool of `ctx` read a part of
/// each tensor. `ctx` and `files` must outlive it.
class FileWeights final : public WeightSource {
 public:
  FileWeights(ExecContext& ctx, const TensorFiles& files)
      : ctx_(ctx), files_(files) {}
  [[nodiscard]] bool has(std::string_view name) const override;
  void check(std::span<const TensorSpec> specs) override;

 protected:
  [[nodiscard]] DType stored_dtype(std::string_view name) const override;
  void fill(const TensorSpec& spec, Tensor& out) override;

 private:
  /// Has the system fetch what is read after the tensor.
  void read_ahead(std::string_view name);

  ExecContext& ctx_;
  const TensorFiles& files_;
  std::vector<TensorFiles::Found> order_;  ///< all that was checked
  std::size_t next_ = 0;                   ///< in `order_`: to be read
  std::size_t asked_ = 0;                  ///< those before it are fetched
  std::uint64_t bytes_ahead_ = 0;          ///< from `next_` to `asked_`
};

/// Random weights, for runs without a download. Roughly normal numbers with a
/// standard deviation of 1/√fan_in (matrices, filters), 0.02 (embedding
/// tables), 0.1 around 1 (norm weights), 0.1 / √size (biases). A pure function
/// of (seed, name, shape), but that the embedders of all blocks of a DiT are
/// equal. Uses the pool of `ctx`, which must outlive it.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(ExecContext& ctx, std::uint64_t seed)
      : ctx_(ctx), seed_(seed) {}
  [[nodiscard]] bool has(std::string_view /*name*/) const override {
    return true;
  }
  void check(std::span<const TensorSpec> /*specs*/) override {}

 protected:
  [[nodiscard]] DType stored_dtype(std::string_view /*name*/) const override {
    return DType::f32;
  }
  void fill(const TensorSpec& spec, Tensor& out) override;

 private:
  ExecContext& ctx_;
  std::uint64_t seed_;
};

}  // namespace troupe::models
