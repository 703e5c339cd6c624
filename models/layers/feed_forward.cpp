#include "models/layers/feed_forward.h"

#include <array>
#include <string>
#include <string_view>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

struct Row {
  std::string_view name;
  FeedForward kind;
};

/// Source: diffusers models/attention.py, FeedForward. (Its GEGLU is gated by
/// the exact GELU, and "geglu-approximate" is not gated at all.)
constexpr std::array<Row, 6> kFeedForwards = {{
    {"gelu-approximate", {kernels::Activation::gelu_tanh, false}},
    {"gelu", {kernels::Activation::gelu_erf, false}},
    {"geglu", {kernels::Activation::gelu_erf, true}},
    {"geglu-approximate", {kernels::Activation::gelu_sigmoid, false}},
    {"swiglu", {kernels::Activation::silu, true}},
    {"linear-silu", {kernels::Activation::silu, false}},
}};

}  // namespace

FeedForward parse_feed_forward(const Json& json) {
  const std::string name = json.string("activation_fn", "gelu-approximate");
  std::string names;
  for (const Row& row : kFeedForwards) {
    if (row.name == name) {
      return row.kind;
    }
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(
      Errc::unsupported, json.place(),
      "activation_fn: got " + in_quotes(name) + ", expected one of " + names,
      "this network cannot be run");
}

}  // namespace troupe::models
