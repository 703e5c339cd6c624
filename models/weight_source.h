#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/hash.h"
#include "kernels/core/tensor.h"
#include "models/safetensors.h"

namespace troupe::models {

/// A tensor that a model expects.
struct TensorSpec {
  std::string name;
  Shape shape;
  /// Files may keep the matrix as the 1×1 convolution that it once was.
  bool may_be_convolution = false;
};

/// Where a model's weights come from: files or noise. Every tensor that is
/// read enters the hash, name first. Thread: one.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// True when the tensor exists.
  [[nodiscard]] virtual bool has(std::string_view name) const = 0;
  /// Checks that every tensor is there with its shape, before anything is
  /// allocated. Errors: Errc::corrupt_file (files that do not belong together
  /// are one broken checkpoint), Errc::unsupported (a dtype).
  virtual void check(std::span<const TensorSpec> specs) const = 0;

  /// Reads one tensor as stored (f32, bf16 or f16).
  [[nodiscard]] Tensor read(const TensorSpec& spec);
  /// The same, as f32.
  [[nodiscard]] Tensor read_f32(const TensorSpec& spec);
  /// Stacks tensors that agree in all but the first extent.
  [[nodiscard]] Tensor read_stacked(std::span<const TensorSpec> specs);

  /// XXH3-64 of all that was read so far.
  [[nodiscard]] std::uint64_t hash() const { return hash_.digest(); }

 protected:
  [[nodiscard]] virtual DType stored_dtype(std::string_view name) const = 0;
  virtual void fill(const TensorSpec& spec, Tensor& out) = 0;

 private:
  void fill_and_hash(const TensorSpec& spec, Tensor& out);

  Xxh3Stream hash_;
};

/// Weights of a checkpoint. `files` must outlive it.
class FileWeights final : public WeightSource {
 public:
  explicit FileWeights(const TensorFiles& files) : files_(files) {}
  [[nodiscard]] bool has(std::string_view name) const override;
  void check(std::span<const TensorSpec> specs) const override;

 protected:
  [[nodiscard]] DType stored_dtype(std::string_view name) const override;
  void fill(const TensorSpec& spec, Tensor& out) override;

 private:
  const TensorFiles& files_;
};

/// Random weights for runs without a download: matrices and filters are
/// roughly normal with deviation 1/√fan_in, tables 0.02, norm weights (rank 1,
/// "weight") 1 plus 0.1 · normal, biases 0.1 · normal / √size. A pure function
/// of (seed, name, shape); the embedders of a DiT's blocks are equal. Uses the
/// pool of `ctx`, which must outlive it.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(ExecContext& ctx, std::uint64_t seed)
      : ctx_(ctx), seed_(seed) {}
  [[nodiscard]] bool has(std::string_view /*name*/) const override {
    return true;
  }
  void check(std::span<const TensorSpec> /*specs*/) const override {}

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
