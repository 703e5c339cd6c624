#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/linear.h"
#include "models/weight_source.h"

namespace troupe::models {

/// The two tensors of a linear layer under their names in diffusers.
struct LinearSpec {
  TensorSpec weight;
  TensorSpec bias;  ///< no name: no bias
};

[[nodiscard]] LinearSpec linear_spec(const std::string& name, std::int64_t out,
                                     std::int64_t in, bool bias = true);
/// The four layers of one attention, named "NAME.to_q" and so on.
struct AttentionSpec {
  LinearSpec q, k, v, out;
};
[[nodiscard]] AttentionSpec attention_spec(const std::string& name,
                                           std::int64_t width, bool bias);
/// "transformer_blocks.3.".
[[nodiscard]] std::string block_name(std::int64_t index);
void append(std::vector<TensorSpec>& specs, const LinearSpec& spec);

/// Reads linear layers of a network and packs them, in the order of the calls.
/// Without a compute type it only reads, so that the source's hash is found.
/// Errors: as WeightSource and PackedLinear; Errc::interrupted. Thread: that of
/// the context.
class LinearLoader {
 public:
  /// Keeps references to both.
  LinearLoader(ExecContext& ctx, std::optional<DType> compute,
               WeightSource& source)
      : ctx_(ctx), compute_(compute), source_(source) {}

  /// A convolution becomes a matrix.
  [[nodiscard]] kernels::PackedLinear linear(const LinearSpec& spec);
  /// Several layers as one: the outputs of all `specs` lie side by side.
  [[nodiscard]] kernels::PackedLinear fused(std::span<const LinearSpec> specs);
  /// Without a compute type an empty layer.
  [[nodiscard]] kernels::PackedLinear pack(const Tensor& weight,
                                           const Tensor& bias);
  /// On the context's device, as f32.
  [[nodiscard]] Tensor table(const TensorSpec& spec);

  [[nodiscard]] ExecContext& ctx() const noexcept { return ctx_; }
  [[nodiscard]] WeightSource& source() const noexcept { return source_; }
  /// Bytes of all that was packed.
  [[nodiscard]] std::size_t num_bytes() const noexcept { return num_bytes_; }
  void count(std::size_t bytes) noexcept { num_bytes_ += bytes; }

 private:
  ExecContext& ctx_;
  std::optional<DType> compute_;
  WeightSource& source_;
  std::size_t num_bytes_ = 0;
};

}  // namespace troupe::models
