#pragma once

#include "kernels/activation.h"
#include "models/files/json.h"

namespace troupe::models {

/// What stands between the two layers of a transformer block's MLP.
struct FeedForward {
  kernels::Activation activation = kernels::Activation::gelu_tanh;
  /// The first layer makes 8D values, a and b (D is the width); the second
  /// reads a · activation(b). Source: diffusers models/activations.py, GEGLU
  /// and SwiGLU.
  bool gated = false;
};

/// Reads `activation_fn`. Errors: Errc::unsupported.
[[nodiscard]] FeedForward parse_feed_forward(const Json& json);

}  // namespace troupe::models
