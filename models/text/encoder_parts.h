#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/reduction.h"
#include "models/files/json.h"
#include "models/text/text_encoder.h"

/// What the text encoders have in common.
namespace troupe::models {

/// The nonlinearity that transformers calls `name`, which stands under `key`.
/// Errors: Errc::unsupported for an unknown nonlinearity.
[[nodiscard]] kernels::Activation text_activation(const Json& json,
                                                  std::string_view key,
                                                  std::string_view name);

/// How many layers make the hidden state that is `wanted`; checks everything
/// else that a caller gives. Errors: as TextEncoder::encode, at `place`.
[[nodiscard]] std::int64_t checked_layers(std::string_view place,
                                          const TextEncoderFacts& facts,
                                          std::span<const std::int32_t> ids,
                                          std::int64_t key_length,
                                          HiddenState wanted);

/// The rows of `table` [V, D] at `ids`: [1, N, D] f32 in ctx's workspace. To
/// row i is added row i of `positions` [N or more, D] f32, where there are any.
/// Both tables are on the host; the first is f32, bf16 or f16. The ids are
/// checked.
[[nodiscard]] Tensor embedded(ExecContext& ctx, const Tensor& table,
                              std::span<const std::int32_t> ids,
                              const Tensor& positions = {});
/// The values of x under another shape, on the host. Complete on return. On a
/// meter without elements, and counted as memory of the pass.
[[nodiscard]] Tensor host_copy(ExecContext& ctx, const Tensor& x,
                               const Shape& shape);

/// Looks behind every layer for a NaN or an infinity. A GPU is asked once, at
/// the end, a meter never.
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
