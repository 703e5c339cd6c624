#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/safetensors.h"

namespace troupe::models {
namespace {

struct DTypeRow {
  FileDType dtype;
  std::string_view name;
  std::uint64_t bits;
};

constexpr std::array<DTypeRow, 22> kDTypes = {{
    {FileDType::boolean, "BOOL", 8},
    {FileDType::f4, "F4", 4},
    {FileDType::f6_e2m3, "F6_E2M3", 6},
    {FileDType::f6_e3m2, "F6_E3M2", 6},
    {FileDType::u8, "U8", 8},
    {FileDType::i8, "I8", 8},
    {FileDType::f8_e5m2, "F8_E5M2", 8},
    {FileDType::f8_e4m3, "F8_E4M3", 8},
    {FileDType::f8_e8m0, "F8_E8M0", 8},
    {FileDType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
    {FileDType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
    {FileDType::i16, "I16", 16},
    {FileDType::u16, "U16", 16},
    {FileDType::f16, "F16", 16},
    {FileDType::bf16, "BF16", 16},
    {FileDType::i32, "I32", 32},
    {FileDType::u32, "U32", 32},
    {FileDType::f32, "F32", 32},
    {FileDType::c64, "C64", 64},
    {FileDType::f64, "F64", 64},
    {FileDType::i64, "I64", 64},
    {FileDType::u64, "U64", 64},
}};

constexpr std::string_view kHint = "the file is damaged: download it again";

/// Reads the header's grammar: {name: {dtype, shape, data_offsets}, …,
/// "__metadata__": {string: string}}. Stops at the first deviation.
class HeaderSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderSax(SafetensorsHeader& header) : header_(header) {}

  [[nodiscard]] const std::string& problem() const { return problem_; }

  bool start_object(std::size_t /*elements*/) override {
    if (level_ == Level::nothing) {
      level_ = Level::top;
      return true;
    }
    if (level_ == Level::tensor_name) {
      level_ = Level::tensor;
      fields_ = 0;
      return true;
    }
    if (level_ == Level::metadata_name) {
      level_ = Level::metadata;
      return true;
    }
    return fail("an object where none belongs");
  }

  bool key(string_t& text) override {
    switch (level_) {
      case Level::top:
        return top_key(text);
      case Level::tensor:
        return field_key(text);
      case Level::metadata:
        if (header_.metadata.contains(text)) {
          return fail("duplicate key in __metadata__: " + in_quotes(text));
        }
        name_ = text;
        level_ = Level::metadata_value;
        return true;
      default:
        return fail("a key where none belongs");
    }
  }

  bool end_object() override {
    if (level_ == Level::tensor) {
      if (fields_ != 7) {
        return fail("expected dtype, shape and data_offsets");
      }
      level_ = Level::top;
      return finish_entry();
    }
    if (level_ == Level::metadata) {
      level_ = Level::top;
      return true;
    }
    level_ = Level::nothing;
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == Level::metadata_value) {
      header_.metadata.emplace(name_, text);
      level_ = Level::metadata;
      return true;
    }
    if (level_ != Level::dtype) {
      return fail("a string where none belongs");
    }
    const auto* row = std::find_if(
        kDTypes.begin(), kDTypes.end(),
        [&](const DTypeRow& candidate) { return candidate.name == text; });
    if (row == kDTypes.end()) {
      return fail("unknown dtype " + in_quotes(text));
    }
    header_.entries.back().dtype = row->dtype;
    bits_ = row->bits;
    level_ = Level::tensor;
    return true;
  }

  bool start_array(std::size_t /*elements*/) override {
    if (level_ == Level::shape_name) {
      level_ = Level::shape;
    } else if (level_ == Level::offsets_name) {
      level_ = Level::offsets;
    } else {
      return fail("an array where none belongs");
    }
    num_numbers_ = 0;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ == Level::shape) {
      if (num_numbers_ == Shape::kMaxRank) {
        return fail("shape has more than " + std::to_string(Shape::kMaxRank) +
                    " extents");
      }
      extents_[num_numbers_++] = value;
      return true;
    }
    if (level_ == Level::offsets && num_numbers_ < 2) {
      offsets_[num_numbers_++] = value;
      return true;
    }
    return fail("a number where none belongs");
  }

  bool end_array() override {
    if (level_ == Level::shape) {
      rank_ = num_numbers_;
    } else if (num_numbers_ != 2) {
      return fail("data_offsets: expected two numbers");
    }
    level_ = Level::tensor;
    return true;
  }

  bool number_integer(number_integer_t /*value*/) override {
    return fail("a negative number");
  }
  bool number_float(number_float_t /*value*/, const string_t& text) override {
    return fail("a number that is not a whole one: " + printable(text));
  }
  bool null() override { return fail("a null"); }
  bool boolean(bool /*value*/) override { return fail("a boolean"); }
  bool binary(binary_t& /*value*/) override { return fail("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return fail("not valid JSON at byte " + std::to_string(position));
  }

 private:
  enum class Level : std::uint8_t {
    nothing,
    top,
    tensor_name,
    tensor,
    dtype,
    shape_name,
    shape,
    offsets_name,
    offsets,
    metadata_name,
    metadata,
    metadata_value
  };

  bool fail(std::string problem) {
    if (problem_.empty()) {
      const bool in_tensor = level_ >= Level::tensor_name &&
                             level_ <= Level::offsets &&
                             !header_.entries.empty();
      problem_ = in_tensor
                     ? "tensor " + in_quotes(header_.entries.back().name) +
                           ": " + problem
                     : std::move(problem);
    }
    return false;
  }

  bool top_key(const std::string& text) {
    if (!names_.insert(text).second) {
      return fail("duplicate key " + in_quotes(text));
    }
    if (text == "__metadata__") {
      level_ = Level::metadata_name;
      return true;
    }
    header_.entries.emplace_back().name = text;
    level_ = Level::tensor_name;
    return true;
  }

  bool field_key(const std::string& text) {
    unsigned field = 0;
    if (text == "dtype") {
      field = 1;
      level_ = Level::dtype;
    } else if (text == "shape") {
      field = 2;
      level_ = Level::shape_name;
    } else if (text == "data_offsets") {
      field = 4;
      level_ = Level::offsets_name;
    } else {
      return fail("unknown key " + in_quotes(text));
    }
    if ((fields_ & field) != 0) {
      return fail("duplicate key '" + text + "'");
    }
    fields_ |= field;
    return true;
  }

  bool finish_entry() {
    SafetensorsEntry& entry = header_.entries.back();
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    std::uint64_t num_bits = bits_;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (!std::in_range<std::int64_t>(extents_[i]) ||
          __builtin_mul_overflow(num_bits, extents_[i], &num_bits)) {
        level_ = Level::tensor_name;
        return fail("the shape overflows");
      }
      extents[i] = static_cast<std::int64_t>(extents_[i]);
    }
    entry.begin = offsets_[0];
    entry.end = offsets_[1];
    if (num_bits % 8 != 0 || entry.end < entry.begin ||
        entry.end - entry.begin != num_bits / 8) {
      level_ = Level::tensor_name;
      return fail("shape and data_offsets disagree: got " +
                  std::to_string(entry.begin) + " to " +
                  std::to_string(entry.end) + ", expected " +
                  std::to_string(num_bits) + " bits");
    }
    try {
      entry.shape = Shape(std::span(extents.data(), rank_));
    } catch (const Error& error) {
      level_ = Level::tensor_name;
      return fail(error.what());
    }
    return true;
  }

  SafetensorsHeader& header_;
  std::set<std::string> names_;
  std::string name_;
  std::string problem_;
  Level level_ = Level::nothing;
  unsigned fields_ = 0;
  std::uint64_t bits_ = 0;
  std::size_t num_numbers_ = 0;
  std::size_t rank_ = 0;
  std::array<std::uint64_t, Shape::kMaxRank> extents_{};
  std::array<std::uint64_t, 2> offsets_{};
};

void check_tiling(const SafetensorsHeader& header, std::uint64_t data_bytes,
                  std::string_view place) {
  std::vector<const SafetensorsEntry*> order;
  order.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) {
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t expected = 0;
  for (const SafetensorsEntry* entry : order) {
    if (entry->begin != expected) {
      throw Error(Errc::corrupt_file, place,
                  "tensor " + in_quotes(entry->name) +
                      (entry->begin < expected ? " overlaps another"
                                               : " leaves a gap") +
                      ": got offset " + std::to_string(entry->begin) +
                      ", expected " + std::to_string(expected),
                  kHint);
    }
    expected = entry->end;
  }
  if (expected != data_bytes) {
    throw Error(Errc::corrupt_file, place,
                "the file does not end where its tensors do: got " +
                    std::to_string(data_bytes) + " data bytes, expected " +
                    std::to_string(expected),
                kHint);
  }
}

}  // namespace

std::string_view to_string(FileDType dtype) noexcept {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}

std::optional<DType> tensor_dtype(FileDType dtype) noexcept {
  switch (dtype) {
    case FileDType::f32:
    case FileDType::f64:
      return DType::f32;
    case FileDType::bf16:
      return DType::bf16;
    case FileDType::f16:
      return DType::f16;
    case FileDType::i64:
      return DType::i64;
    case FileDType::u8:
    case FileDType::boolean:
      return DType::u8;
    default:
      return std::nullopt;
  }
}

SafetensorsHeader parse_safetensors_header(std::string_view json,
                                           std::uint64_t data_bytes,
                                           std::string_view place) {
  require(!json.empty() && json.front() == '{', Errc::corrupt_file, place,
          "the header does not begin with '{'", kHint);
  SafetensorsHeader header;
  HeaderSax sax(header);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &sax)) {
    throw Error(Errc::corrupt_file, place, "header: " + sax.problem(), kHint);
  }
  check_tiling(header, data_bytes, place);
  std::sort(header.entries.begin(), header.entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return header;
}

}  // namespace troupe::models
