#include "models/files/weight_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/core/error.h"

namespace troupe::models {
namespace {

constexpr std::int64_t kPiece = 1 << 16;
// What the system is asked to fetch ahead: a tenth of a second of a quick disk.
constexpr std::uint64_t kBytesAhead = std::uint64_t{1} << 28U;

/// Roughly normal, variance 1, within ±3.5: the sum of the four 16-bit parts of
/// splitmix64 (Steele et al. 2014, OOPSLA). Integers until the last product,
/// so the bits are the same everywhere; 750 million take seconds.
float draw(std::uint64_t counter) {
  std::uint64_t z = counter * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  z ^= z >> 31U;
  const auto sum =
      static_cast<std::int32_t>((z & 0xffffU) + ((z >> 16U) & 0xffffU) +
                                ((z >> 32U) & 0xffffU) + (z >> 48U));
  constexpr float kUnit = 2.6428998e-5F;  // sqrt(3) / 65536
  return static_cast<float>(sum - 2 * 0xffff) * kUnit;
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() &&
         text.substr(text.size() - ending.size()) == ending;
}

struct Distribution {
  float mean = 0.0F;
  float deviation = 1.0F;
};

Distribution distribution_of(const TensorSpec& spec) {
  const Shape& shape = spec.shape;
  if (ends_with(spec.name, "embedding_table.weight")) {
    return {0.0F, 0.02F};
  }
  if (shape.rank() >= 2) {
    const auto fan_in = static_cast<float>(std::max<std::int64_t>(
        1, shape.num_elements() / std::max<std::int64_t>(1, shape[0])));
    return {0.0F, 1.0F / std::sqrt(fan_in)};
  }
  if (ends_with(spec.name, ".weight")) {
    return {1.0F, 0.1F};
  }
  const auto size =
      static_cast<float>(std::max<std::int64_t>(1, shape.num_elements()));
  return {0.0F, 0.1F / std::sqrt(size)};
}

/// Embedders of all blocks get one name: published models repeat one.
std::string stream_name(const std::string& name) {
  constexpr std::string_view kEmbedder = "norm1.emb.";
  const auto at = name.find(kEmbedder);
  return at == std::string::npos ? name : name.substr(at);
}

/// [N, K, 1, 1] for the matrix [N, K].
Shape as_convolution(const Shape& matrix) {
  return {matrix[0], matrix[1], 1, 1};
}

}  // namespace

void WeightSource::fill_and_hash(const TensorSpec& spec, Tensor& out) {
  fill(spec, out);
  hash_.update(std::as_bytes(std::span(spec.name)));
  hash_.update(std::as_const(out).bytes());
  if (notes_tensors_ || held_to_) {
    see_tensor(spec.name, std::as_const(out).bytes());
  }
}

void WeightSource::see_tensor(const std::string& name,
                              std::span<const std::byte> bytes) {
  const std::uint64_t content = xxh3_64(bytes);
  Xxh3Stream named;
  named.update(std::as_bytes(std::span(&content, 1)));
  named.update(std::as_bytes(std::span(name)));
  const std::uint64_t hash = named.digest();
  if (notes_tensors_) {
    tensor_hashes_.push_back(hash);
  }
  if (held_to_ && !std::ranges::binary_search(*held_to_, hash)) {
    throw Error(Errc::invalid_argument, name,
                "its values differ from those that are wanted");
  }
}

Tensor WeightSource::read(const TensorSpec& spec) {
  Tensor out(spec.shape, stored_dtype(spec.name));
  fill_and_hash(spec, out);
  return out;
}

Tensor WeightSource::read_f32(const TensorSpec& spec) {
  Tensor out(spec.shape, DType::f32);
  fill_and_hash(spec, out);
  return out;
}

WeightSource::Whole WeightSource::whole_of(
    std::span<const TensorSpec> specs) const {
  std::vector<std::int64_t> extents(specs[0].shape.extents().begin(),
                                    specs[0].shape.extents().end());
  extents[0] = 0;
  const DType dtype = stored_dtype(specs[0].name);
  bool same = true;
  for (const TensorSpec& spec : specs) {
    extents[0] += spec.shape[0];
    same = same && stored_dtype(spec.name) == dtype;
  }
  return {Shape(extents), same ? dtype : DType::f32};
}

void WeightSource::read_parts(std::span<const TensorSpec> specs, Tensor& all) {
  std::int64_t row = 0;
  for (const TensorSpec& spec : specs) {
    Tensor part = all.slice(row, row + spec.shape[0]);
    fill_and_hash(spec, part);
    row += spec.shape[0];
  }
}

Tensor WeightSource::read_concatenated(std::span<const TensorSpec> specs) {
  const Whole whole = whole_of(specs);
  Tensor all(whole.shape, whole.dtype);
  read_parts(specs, all);
  return all;
}

Tensor WeightSource::read_to_pack(std::span<const TensorSpec> specs) {
  const Whole whole = whole_of(specs);
  const std::int64_t bytes = whole.shape.num_elements() *
                             static_cast<std::int64_t>(size_of(whole.dtype));
  if (scratch_.num_elements() < bytes || scratch_.owner().use_count() > 1) {
    scratch_ = {};  // before there is another
    scratch_ = Tensor({bytes}, DType::u8);
  }
  Tensor all(scratch_.owner(), whole.shape, whole.dtype, {});
  read_parts(specs, all);
  return all;
}

bool FileWeights::has(std::string_view name) const {
  return files_.find(name).has_value();
}

void FileWeights::check(std::span<const TensorSpec> specs) {
  const std::string place = files_.files().empty()
                                ? "checkpoint"
                                : files_.files().front()->path().string();
  for (const TensorSpec& spec : specs) {
    const auto found = files_.find(spec.name);
    if (!found) {
      throw Error(Errc::corrupt_file, place,
                  "tensor '" + spec.name + "' is missing",
                  "the weights do not belong to this config.json");
    }
    const Shape& shape = found->entry.shape;
    if (shape != spec.shape &&
        !(spec.may_be_convolution && shape == as_convolution(spec.shape))) {
      throw Error(Errc::corrupt_file, place,
                  "tensor '" + spec.name + "': got shape " +
                      troupe::to_string(found->entry.shape) + ", expected " +
                      troupe::to_string(spec.shape),
                  "the weights do not belong to this config.json");
    }
    const auto dtype = found->entry.dtype;
    require(dtype == FileDType::f32 || dtype == FileDType::bf16 ||
                dtype == FileDType::f16 || dtype == FileDType::f64,
            Errc::unsupported, place,
            "tensor '" + spec.name + "': dtype " +
                std::string(to_string(dtype)) +
                " cannot be used: expected F32, BF16 or F16",
            "convert the checkpoint to one of these types");
    order_.push_back(*found);
  }
}

DType FileWeights::stored_dtype(std::string_view name) const {
  const auto found = files_.find(name);
  if (!found) {
    throw Error(Errc::corrupt_file, "checkpoint",
                "tensor '" + std::string(name) + "' is missing",
                "the weights do not belong to this config.json");
  }
  return tensor_dtype(found->entry.dtype).value_or(DType::f32);
}

void FileWeights::fill(const TensorSpec& spec, Tensor& out) {
  read_ahead(spec.name);
  const auto found = *files_.find(spec.name);
  found.file->read(found.entry, out, &ctx_.pool());
}

void FileWeights::read_ahead(std::string_view name) {
  const auto bytes = [&](std::size_t i) {
    return order_[i].entry.end - order_[i].entry.begin;
  };
  std::size_t at = next_;
  while (at < order_.size() && order_[at].entry.name != name) {
    ++at;
  }
  if (at == order_.size()) {
    return;  // read out of turn: nothing is known about what comes
  }
  for (; next_ <= at; ++next_) {
    if (next_ < asked_) {
      bytes_ahead_ -= bytes(next_);
    }
  }
  asked_ = std::max(asked_, at);  // the tensor itself, too, if it was not
  for (; asked_ < order_.size() && bytes_ahead_ < kBytesAhead; ++asked_) {
    order_[asked_].file->will_read(order_[asked_].entry);
    bytes_ahead_ += asked_ == at ? 0 : bytes(asked_);
  }
}

void RandomWeights::fill(const TensorSpec& spec, Tensor& out) {
  const Distribution wanted = distribution_of(spec);
  const std::string name = stream_name(spec.name);
  const std::uint64_t first =
      xxh3_64(std::as_bytes(std::span(name))) ^ (seed_ * 0xd1342543de82ef95ULL);
  float* values = out.data<float>();
  const std::int64_t total = out.num_elements();
  const std::int64_t pieces = (total + kPiece - 1) / kPiece;
  ctx_.pool().run(pieces, [&](std::int64_t piece, int /*thread*/) {
    const std::int64_t end = std::min(total, (piece + 1) * kPiece);
    for (std::int64_t i = piece * kPiece; i < end; ++i) {
      values[i] = wanted.mean + wanted.deviation *
                                    draw(first + static_cast<std::uint64_t>(i));
    }
  });
}

}  // namespace troupe::models
