#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/linear.h"
#include "kernels/reduction.h"
#include "models/files/json.h"
#include "models/files/weight_source.h"
#include "models/text/text_encoder.h"

/// What the text encoders have in common.
namespace troupe::models {

/// The nonlinearity that transformers calls `name`, which stands under `key`.
/// Errors: Errc::unsupported for an unknown nonlinearity.
[[nodiscard]] kernels::Activation text_activation(const Json& json,
                                                  std::string_view key,
                                                  std::string_view name);

struct EncoderLimits {
  std::int64_t vocab_size = 0;
  std::int64_t max_tokens = 0;
  std::int64_t num_layers = 0;
};

/// How many layers make the hidden state that is `wanted`; checks everything
/// else that a caller gives. Errors: as TextEncoder::encode, at `place`.
[[nodiscard]] std::int64_t checked_layers(std::string_view place,
                                          const EncoderLimits& limits,
                                          std::span<const std::int32_t> ids,
                                          std::int64_t key_length,
                                          HiddenState wanted);

/// The rows of `table` [V, D] at `ids`: [N, D] f32. Both on the host; the table
/// is f32, bf16 or f16. The ids are checked.
[[nodiscard]] Tensor embedded(const Tensor& table,
                              std::span<const std::int32_t> ids);

/// Matrices [N, K] that are packed one below the other, and as many biases [N]
/// or none.
struct LinearTensors {
  std::vector<TensorSpec> weights;
  std::vector<TensorSpec> biases;
};

/// Bytes of the packed tensors: matrices in the compute type, embedding tables
/// (named "embed…" or "shared") and vectors in f32.
[[nodiscard]] std::uint64_t packed_bytes(std::span<const TensorSpec> specs,
                                         DType compute);
/// Of these, the embedding tables.
[[nodiscard]] std::uint64_t table_bytes(std::span<const TensorSpec> specs);

/// Reads and packs tensors of a text encoder in the order of the calls. Without
/// a compute type it only reads. One matrix at a time is in memory beside what
/// is packed.
class EncoderLoader {
 public:
  EncoderLoader(ExecContext& ctx, std::optional<DType> compute,
                WeightSource& source)
      : ctx_(ctx), compute_(compute), source_(source) {}

  /// An embedding table on the host, as it is stored.
  [[nodiscard]] Tensor table(const TensorSpec& spec);
  /// f32 on the host.
  [[nodiscard]] Tensor host(const TensorSpec& spec);
  /// f32 on ctx's device.
  [[nodiscard]] Tensor vector(const TensorSpec& spec);
  [[nodiscard]] kernels::PackedLinear linear(const LinearTensors& tensors);

 private:
  ExecContext& ctx_;
  std::optional<DType> compute_;
  WeightSource& source_;
};

/// Looks behind every layer for a NaN or an infinity. A GPU is asked once, at
/// the end.
class FiniteCheck {
 public:
  /// `most`: of the calls of `look`.
  FiniteCheck(ExecContext& ctx, std::int64_t most)
      : readings_(ctx, static_cast<std::size_t>(most)) {}

  /// Queues a look at `x` f32, the output of what `name` says.
  void look(std::string name, const Tensor& x);
  /// Waits for ctx's queue. Errors: Errc::non_finite at `place` with the name
  /// of the first output that had one.
  void require_all(std::string_view place);

 private:
  kernels::Readings readings_;
  std::vector<std::string> names_;
};

}  // namespace troupe::models
