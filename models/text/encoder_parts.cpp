#include "models/text/encoder_parts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/copy.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::models {
namespace {

struct NamedActivation {
  std::string_view name;
  kernels::Activation activation;
};

/// Source: transformers activations.py, ACT2CLS.
constexpr std::array<NamedActivation, 9> kActivations = {{
    {"quick_gelu", kernels::Activation::gelu_sigmoid},
    {"gelu", kernels::Activation::gelu_erf},
    {"gelu_new", kernels::Activation::gelu_tanh},
    {"gelu_fast", kernels::Activation::gelu_tanh},
    {"gelu_pytorch_tanh", kernels::Activation::gelu_tanh},
    {"relu", kernels::Activation::relu},
    {"silu", kernels::Activation::silu},
    {"swish", kernels::Activation::silu},
    {"mish", kernels::Activation::mish},
}};

template <typename T>
void widen(const T* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = from[i].to_float();
  }
}

void copy_row(const Tensor& table, std::int64_t row, float* to) {
  const std::int64_t width = table.dim(1);
  switch (table.dtype()) {
    case DType::bf16:
      return widen(table.data<bfloat16>() + row * width, width, to);
    case DType::f16:
      return widen(table.data<float16>() + row * width, width, to);
    default:
      std::copy_n(table.data<float>() + row * width, width, to);
  }
}

void check_range(std::string_view place, std::string_view what,
                 std::int64_t got, std::int64_t least, std::int64_t most,
                 std::string_view hint) {
  if (got < least || got > most) {
    throw Error(Errc::invalid_argument, place,
                std::string(what) + ": got " + std::to_string(got) +
                    ", expected " + std::to_string(least) + " to " +
                    std::to_string(most),
                hint);
  }
}

}  // namespace

kernels::Activation text_activation(const Json& json, std::string_view key,
                                    std::string_view name) {
  std::string names;
  for (const NamedActivation& row : kActivations) {
    if (row.name == name) {
      return row.activation;
    }
    names += (names.empty() ? "" : ", ") + std::string(row.name);
  }
  throw Error(Errc::unsupported, json.place(),
              std::string(key) + ": got " + in_quotes(name) +
                  ", expected one of " + names,
              "this text encoder cannot be run");
}

std::int64_t checked_layers(std::string_view place,
                            const TextEncoderFacts& facts,
                            std::span<const std::int32_t> ids,
                            std::int64_t key_length, HiddenState wanted) {
  const auto rows = static_cast<std::int64_t>(ids.size());
  check_range(place, "tokens", rows, 1, facts.max_tokens, "shorten the prompt");
  for (const std::int32_t id : ids) {
    check_range(place, "token id", id, 0, facts.vocab_size - 1,
                "the tokenizer and the text encoder do not belong together");
  }
  check_range(place, "rows that are attended to", key_length, 1, rows, "");
  check_range(place, "layers left out", wanted.skipped_layers, 0,
              facts.num_layers, "choose a smaller clip skip");
  return facts.num_layers - wanted.skipped_layers;
}

Tensor embedded(ExecContext& ctx, const Tensor& table,
                std::span<const std::int32_t> ids, const Tensor& positions) {
  const std::int64_t width = table.dim(1);
  const Shape shape{1, static_cast<std::int64_t>(ids.size()), width};
  Tensor x = ctx.workspace().take(shape, DType::f32);
  if (ctx.device().kind == DeviceKind::meter) {
    return x;  // its tables have no elements
  }
  Tensor rows(shape, DType::f32);
  float* to = rows.data<float>();
  for (const std::int32_t id : ids) {
    copy_row(table, id, to);
    to += width;
  }
  if (!positions.empty()) {
    const float* position = positions.data<float>();
    for (float& value : rows.span<float>()) {
      value += *position++;
    }
  }
  kernels::copy(ctx, rows, x);
  return x;
}

Tensor host_copy(ExecContext& ctx, const Tensor& x, const Shape& shape) {
  if (ctx.device().kind == DeviceKind::meter) {
    return ctx.workspace().take(shape, x.dtype());  // counted, not copied
  }
  Tensor copied(shape, x.dtype());
  kernels::copy(ctx, x.reshape(shape), copied);
  return copied;
}

void FiniteCheck::look(std::string name, const Tensor& x) {
  if (x.device().kind != DeviceKind::meter) {
    readings_.all_finite(x);
    names_.push_back(std::move(name));
  }
}

void FiniteCheck::require_all(std::string_view place) {
  const std::span<const double> finite = readings_.wait();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (finite[i] == 0.0) {
      throw Error(Errc::non_finite, place,
                  names_[i] + ": got NaN or an infinity, expected numbers",
                  "use --dtype bf16 or f32; if that does not help, the weights "
                  "are broken");
    }
  }
}

}  // namespace troupe::models
