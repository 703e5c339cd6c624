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

bool is_table(const TensorSpec& spec) {
  return spec.shape.rank() == 2 &&
         (spec.name.find("embed") != std::string::npos ||
          spec.name.find("shared") != std::string::npos);
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

std::int64_t checked_layers(std::string_view place, const EncoderLimits& limits,
                            std::span<const std::int32_t> ids,
                            std::int64_t key_length, HiddenState wanted) {
  const auto rows = static_cast<std::int64_t>(ids.size());
  check_range(place, "tokens", rows, 1, limits.max_tokens,
              "shorten the prompt");
  for (const std::int32_t id : ids) {
    check_range(place, "token id", id, 0, limits.vocab_size - 1,
                "the tokenizer and the text encoder do not belong together");
  }
  check_range(place, "rows that are attended to", key_length, 1, rows, "");
  check_range(place, "layers left out", wanted.skipped_layers, 0,
              limits.num_layers, "choose a smaller clip skip");
  return limits.num_layers - wanted.skipped_layers;
}

Tensor embedded(const Tensor& table, std::span<const std::int32_t> ids) {
  const std::int64_t width = table.dim(1);
  Tensor rows({static_cast<std::int64_t>(ids.size()), width}, DType::f32);
  float* to = rows.data<float>();
  for (const std::int32_t id : ids) {
    copy_row(table, id, to);
    to += width;
  }
  return rows;
}

std::uint64_t packed_bytes(std::span<const TensorSpec> specs, DType compute) {
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    const bool is_matrix = spec.shape.rank() == 2 && !is_table(spec);
    bytes += static_cast<std::uint64_t>(spec.shape.num_elements()) *
             (is_matrix ? size_of(compute) : sizeof(float));
  }
  return bytes;
}

std::uint64_t table_bytes(std::span<const TensorSpec> specs) {
  std::uint64_t bytes = 0;
  for (const TensorSpec& spec : specs) {
    if (is_table(spec)) {
      bytes +=
          static_cast<std::uint64_t>(spec.shape.num_elements()) * sizeof(float);
    }
  }
  return bytes;
}

Tensor EncoderLoader::table(const TensorSpec& spec) {
  ctx_.tick(1);  // a stop ends the loading; a worker that reads is alive
  return source_.read(spec);
}

Tensor EncoderLoader::host(const TensorSpec& spec) {
  ctx_.tick(1);
  return source_.read_f32(spec);
}

Tensor EncoderLoader::vector(const TensorSpec& spec) {
  return kernels::on_device(ctx_, host(spec));
}

kernels::PackedLinear EncoderLoader::linear(const LinearTensors& tensors) {
  ctx_.tick(1);
  const Tensor weight = source_.read_to_pack(tensors.weights);
  const Tensor bias = tensors.biases.empty()
                          ? Tensor()
                          : source_.read_concatenated(tensors.biases);
  return compute_ ? kernels::PackedLinear(ctx_, weight, bias, *compute_)
                  : kernels::PackedLinear();
}

void FiniteCheck::look(std::string name, const Tensor& x) {
  readings_.all_finite(x);
  names_.push_back(std::move(name));
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
