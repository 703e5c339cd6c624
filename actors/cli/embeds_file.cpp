#include "actors/cli/embeds_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "actors/cli/tensor_file.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

constexpr std::string_view kEmbeds = "prompt_embeds";
constexpr std::string_view kMask = "prompt_attention_mask";
constexpr std::string_view kPooledEmbeds = "pooled_prompt_embeds";
constexpr const char* kPooled = "pooled";  // of a condition

/// A tensor of encoded prompts: [n, …], where `rank` counts one prompt's axes.
Tensor rows_of(const NamedTensor& named, std::size_t rank,
               const std::string& path) {
  const Shape& shape = named.tensor.shape();
  require(shape.rank() == rank || shape.rank() == rank + 1,
          Errc::shape_mismatch, path,
          named.name + ": got " + to_string(shape) + ", expected " +
              std::to_string(rank) + " axes, or one more for several prompts",
          "troupe encode writes such files");
  return shape.rank() == rank ? named.tensor.reshape(with_rows(1, shape))
                              : named.tensor;
}

/// How many tokens count. Padding stands at the end.
std::int64_t length_of(const Tensor& mask, const std::string& path) {
  const auto value = [&](std::int64_t i) -> double {
    switch (mask.dtype()) {
      case DType::i64:
        return static_cast<double>(mask.data<std::int64_t>()[i]);
      case DType::u8:
        return mask.data<std::uint8_t>()[i];
      case DType::f32:
        return mask.data<float>()[i];
      default:
        return -1;
    }
  };
  std::int64_t length = 0;
  for (std::int64_t i = 0; i < mask.num_elements(); ++i) {
    require(value(i) == 0 || (value(i) == 1 && length == i),
            Errc::invalid_argument, path,
            std::string(kMask) +
                ": expected ones and then zeros, as integers or float32",
            "padding stands behind a prompt's tokens");
    length += value(i) == 1 ? 1 : 0;
  }
  return length;
}

/// What a file calls a tensor of a condition.
std::string name_in_file(std::string_view name, const std::string& prefix) {
  return prefix + std::string(name == kPooled ? kPooledEmbeds : name);
}

/// The conditions of one branch. prefix: "" or "negative_".
std::vector<models::Condition> conditions_in(
    const std::vector<NamedTensor>& tensors, const std::string& prefix,
    const ModelSource& model, const std::string& path) {
  const auto find = [&](std::string_view name) -> const NamedTensor* {
    const auto found = std::ranges::find(tensors, prefix + std::string(name),
                                         &NamedTensor::name);
    return found == tensors.end() ? nullptr : &*found;
  };
  const NamedTensor* embeds = find(kEmbeds);
  if (embeds == nullptr) {
    return {};
  }
  const Tensor all = rows_of(*embeds, 2, path);
  std::optional<Tensor> masks;
  if (const NamedTensor* mask = find(kMask)) {
    masks = rows_of(*mask, 1, path);
    require(masks->shape() == Shape{all.dim(0), all.dim(1)},
            Errc::shape_mismatch, path,
            mask->name + ": got " + to_string(mask->tensor.shape()) +
                " beside embeddings of " + to_string(embeds->tensor.shape()));
  }
  std::optional<Tensor> pooled;
  if (const NamedTensor* found = find(kPooledEmbeds)) {
    pooled = rows_of(*found, 1, path);
    require(pooled->dim(0) == all.dim(0), Errc::shape_mismatch, path,
            found->name + ": got " + to_string(found->tensor.shape()) +
                " beside embeddings of " + to_string(embeds->tensor.shape()));
  }
  std::vector<models::Condition> conditions;
  for (std::int64_t i = 0; i < all.dim(0); ++i) {
    models::Condition condition;
    condition.add(std::string(kEmbeds), all.item(i),
                  masks ? length_of(masks->item(i), path) : -1);
    if (pooled) {
      condition.add(kPooled, pooled->item(i));
    }
    model.side_adder()(condition, !prefix.empty());
    try {
      model.denoiser().check_condition(condition);
    } catch (const Error& error) {
      throw Error(error.code(), path,
                  name_in_file(error.place(), prefix) + ": " + error.message(),
                  "give embeddings that were made for this model");
    }
    conditions.push_back(std::move(condition));
  }
  return conditions;
}

/// Whether two conditions are of one text. The rows of one text in a batch may
/// differ by rounding: those that diffusers returned for a negative prompt
/// differed by 2e-7 of their norm (SDXL, five prompts, on a CPU).
bool are_of_one_text(const models::Condition& a, const models::Condition& b) {
  constexpr double kRounding = 1e-3;  // of the norm
  return std::ranges::equal(
      a.tensors(), b.tensors(), [](const auto& x, const auto& y) {
        if (x.name != y.name || x.length != y.length ||
            x.tensor.shape() != y.tensor.shape() ||
            x.tensor.dtype() != y.tensor.dtype()) {
          return false;
        }
        if (x.tensor.dtype() != DType::f32) {
          return std::ranges::equal(x.tensor.bytes(), y.tensor.bytes());
        }
        double difference = 0;
        double norm = 0;
        for (std::int64_t i = 0; i < x.tensor.num_elements(); ++i) {
          const double one = x.tensor.template data<float>()[i];
          const double d = one - y.tensor.template data<float>()[i];
          difference += d * d;
          norm += one * one;
        }
        return difference <= kRounding * kRounding * norm;
      });
}

/// As in diffusers, a negative prompt has as many rows as a prompt. With masks
/// the numbers may differ: troupe encode pads every prompt by itself. Errors:
/// Errc::shape_mismatch.
void check_lengths(const JobConditions& conditions, bool has_masks,
                   const std::string& path) {
  const auto shape_of = [](const models::Condition& condition) {
    return condition.find(kEmbeds)->tensor.shape();
  };
  const Shape negative = shape_of(conditions.unconditional.front().get());
  for (const StoredCondition& stored : conditions.each) {
    const models::Condition one = stored.get();
    require(has_masks || shape_of(one) == negative, Errc::shape_mismatch, path,
            fmt::format("prompt_embeds and negative_prompt_embeds: got {} and "
                        "{}, expected the same shape",
                        to_string(shape_of(one)), to_string(negative)),
            "encode both with the same number of tokens");
  }
}

/// The negative prompts: a single one for all prompts, also where the rows are
/// equal, or a negative prompt for each prompt. Errors: Errc::invalid_argument
/// for another number.
std::vector<models::Condition> negatives_of(std::vector<models::Condition> rows,
                                            std::size_t num_prompts,
                                            const std::string& path) {
  require(!rows.empty(), Errc::invalid_argument, path,
          "guidance needs negative_prompt_embeds: got none",
          "add it to the file, or give --guidance 1");
  require(rows.size() == 1 || rows.size() == num_prompts,
          Errc::invalid_argument, path,
          fmt::format("negative_prompt_embeds: got {} rows, expected 1, or {} "
                      "as prompt_embeds has",
                      rows.size(), num_prompts),
          "keep one row, which is then that of all prompts");
  if (std::ranges::all_of(rows, [&](const auto& row) {
        return are_of_one_text(row, rows.front());
      })) {
    rows.resize(1);
  }
  return rows;
}

/// Adds the tensors of one branch, each prompt padded to the longest. One
/// condition at a time is in memory beside them.
void add_branch(std::span<const StoredCondition> conditions,
                const std::string& prefix, bool has_masks,
                std::vector<NamedTensor>& tensors) {
  std::int64_t longest = 1;
  std::int64_t width = 0;
  Shape pooled_shape{0};
  for (const StoredCondition& stored : conditions) {
    const models::Condition condition = stored.get();
    const models::ConditionTensor& embeds = *condition.find(kEmbeds);
    longest = std::max(longest, embeds.length);
    width = embeds.tensor.dim(1);
    if (const models::ConditionTensor* pooled = condition.find(kPooled)) {
      pooled_shape = pooled->tensor.shape();
    }
  }
  const auto count = static_cast<std::int64_t>(conditions.size());
  Tensor all = Tensor::zeros({count, longest, width}, DType::f32);
  Tensor masks = Tensor::zeros({count, longest}, DType::i64);
  Tensor pooled;
  if (pooled_shape.num_elements() > 0) {
    pooled = Tensor(with_rows(count, pooled_shape), DType::f32);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const models::Condition condition =
        conditions[static_cast<std::size_t>(i)].get();
    const models::ConditionTensor& embeds = *condition.find(kEmbeds);
    std::memcpy(
        all.item(i).bytes().data(), embeds.tensor.bytes().data(),
        static_cast<std::size_t>(embeds.length * width) * sizeof(float));
    std::fill_n(masks.item(i).data<std::int64_t>(), embeds.length, 1);
    if (const models::ConditionTensor* one = condition.find(kPooled)) {
      std::memcpy(pooled.item(i).bytes().data(), one->tensor.bytes().data(),
                  one->tensor.num_bytes());
    }
  }
  tensors.push_back({prefix + std::string(kEmbeds), std::move(all)});
  if (has_masks) {
    tensors.push_back({prefix + std::string(kMask), std::move(masks)});
  }
  if (!pooled.empty()) {
    tensors.push_back({prefix + std::string(kPooledEmbeds), std::move(pooled)});
  }
}

}  // namespace

JobConditions read_embeds(const std::string& path, const ModelSource& model,
                          bool is_guided) {
  const std::vector<NamedTensor> tensors = read_tensors(path);
  const auto read = conditions_in(tensors, "", model, path);
  JobConditions conditions{{read.begin(), read.end()}, {}};
  require(!conditions.each.empty(), Errc::invalid_argument, path,
          "no tensor prompt_embeds is in it",
          "troupe encode writes such files; diffusers' encode_prompt returns "
          "the tensors");
  if (!is_guided) {
    return conditions;
  }
  const auto negatives =
      negatives_of(conditions_in(tensors, "negative_", model, path),
                   conditions.each.size(), path);
  conditions.unconditional = {negatives.begin(), negatives.end()};
  check_lengths(conditions,
                std::ranges::any_of(tensors,
                                    [](const NamedTensor& tensor) {
                                      return tensor.name.ends_with(kMask);
                                    }),
                path);
  return conditions;
}

std::vector<NamedTensor> embeds_of(const JobConditions& conditions,
                                   bool has_masks) {
  std::vector<NamedTensor> tensors;
  add_branch(conditions.each, "", has_masks, tensors);
  if (!conditions.unconditional.empty()) {
    add_branch(conditions.unconditional, "negative_", has_masks, tensors);
  }
  return tensors;
}

}  // namespace troupe::actors
