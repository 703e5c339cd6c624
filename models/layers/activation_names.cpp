#include "models/layers/activation_names.h"

#include <string>

#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {

kernels::Activation parse_activation(const Json& json,
                                     const char* consequence) {
  const std::string given = json.string("act_fn", "silu");
  const std::string name = lowered(given);
  if (name == "silu" || name == "swish") {
    return kernels::Activation::silu;
  }
  if (name == "relu") {
    return kernels::Activation::relu;
  }
  if (name == "mish") {
    return kernels::Activation::mish;
  }
  require(name == "gelu", Errc::unsupported, json.place(),
          "act_fn: got " + in_quotes(given) +
              ", expected silu, swish, relu, gelu or mish",
          consequence);
  return kernels::Activation::gelu_erf;
}

}  // namespace troupe::models
