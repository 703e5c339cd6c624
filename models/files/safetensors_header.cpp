#include <algorithm>
#include <array>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/files/header_text.h"
#include "models/files/safetensors.h"

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

constexpr std::string_view kHeaderHint =
    "the file is damaged: download it again";
/// Published files have a few dozen entries; an entry takes more memory than
/// its text.
constexpr std::size_t kMostMetadata = 65536;
/// Bytes of the shortest tensor: "":{"dtype":"U8",… and a comma.
constexpr std::size_t kShortestTensor = 50;

using Record = SafetensorsEntries::Record;

/// Reads the header's grammar: {name: {dtype, shape, data_offsets}, …,
/// "__metadata__": {string: string}}. Stops at the first deviation.
class HeaderParser {
 public:
  HeaderParser(std::string& text, std::string_view place)
      : text_(text, place) {}

  void parse(std::vector<Record>& records,
             std::map<std::string_view, std::string_view>& metadata) {
    records_ = &records;
    records.reserve(std::min(text_.count('{'), text_.size() / kShortestTensor));
    bool has_metadata = false;
    text_.each_member([&](HeaderText::Name name) {
      if (name.text != "__metadata__") {
        tensor(name);
        return;
      }
      if (std::exchange(has_metadata, true)) {
        text_.fail("duplicate key '__metadata__'");
      }
      read_metadata(metadata);
    });
    text_.expect_end();
  }

 private:
  void read_metadata(std::map<std::string_view, std::string_view>& metadata) {
    text_.each_member([&](HeaderText::Name name) {
      const std::string_view value = text_.string().text;
      if (!metadata.emplace(name.text, value).second) {
        text_.fail("duplicate key in __metadata__: " + in_quotes(name.text));
      }
      if (metadata.size() > kMostMetadata) {
        text_.fail("__metadata__: expected at most " +
                   std::to_string(kMostMetadata) + " keys");
      }
    });
  }

  void tensor(HeaderText::Name name) {
    text_.set_subject(name.text);
    Record record;
    record.name = name.begin;
    record.name_size = static_cast<std::uint32_t>(name.text.size());
    unsigned fields = 0;
    text_.each_member([&](HeaderText::Name key) {
      const unsigned field = key.text == "dtype"          ? 1U
                             : key.text == "shape"        ? 2U
                             : key.text == "data_offsets" ? 4U
                                                          : 0U;
      if (field == 0) {
        text_.fail("unknown key " + in_quotes(key.text));
      }
      if ((fields & field) != 0) {
        text_.fail("duplicate key " + in_quotes(key.text));
      }
      fields |= field;
      if (field == 1) {
        record.dtype = dtype();
      } else if (field == 2) {
        shape(record);
      } else {
        offsets(record);
      }
    });
    if (fields != 7) {
      text_.fail("expected dtype, shape and data_offsets");
    }
    check_size(record);
    records_->push_back(record);
    text_.set_subject({});
  }

  FileDType dtype() {
    const std::string_view name = text_.string().text;
    const auto* row = std::find_if(
        kDTypes.begin(), kDTypes.end(),
        [&](const DTypeRow& candidate) { return candidate.name == name; });
    if (row == kDTypes.end()) {
      text_.fail("unknown dtype " + in_quotes(name));
    }
    return row->dtype;
  }

  void shape(Record& record) {
    record.shape = static_cast<std::uint32_t>(text_.position());
    record.rank = 0;
    text_.each_number([&](std::uint64_t extent) {
      if (record.rank == Shape::kMaxRank) {
        text_.fail("shape has more than " + std::to_string(Shape::kMaxRank) +
                   " extents");
      }
      extents_[record.rank++] = extent;
    });
  }

  void offsets(Record& record) {
    std::array<std::uint64_t, 2> values{};
    std::size_t count = 0;
    text_.each_number([&](std::uint64_t value) {
      if (count == values.size()) {
        text_.fail("a number where none belongs");
      }
      values[count++] = value;
    });
    if (count != values.size()) {
      text_.fail("data_offsets: expected two numbers");
    }
    record.begin = values[0];
    record.end = values[1];
  }

  void check_size(const Record& record) {
    std::array<std::int64_t, Shape::kMaxRank> extents{};
    std::uint64_t num_bits =
        kDTypes[static_cast<std::size_t>(record.dtype)].bits;
    for (std::size_t i = 0; i < record.rank; ++i) {
      if (!std::in_range<std::int64_t>(extents_[i]) ||
          __builtin_mul_overflow(num_bits, extents_[i], &num_bits)) {
        text_.fail("the shape overflows");
      }
      extents[i] = static_cast<std::int64_t>(extents_[i]);
    }
    if (num_bits % 8 != 0 || record.end < record.begin ||
        record.end - record.begin != num_bits / 8) {
      text_.fail("shape and data_offsets disagree: got " +
                 std::to_string(record.begin) + " to " +
                 std::to_string(record.end) + ", expected " +
                 std::to_string(num_bits) + " bits");
    }
    try {
      (void)Shape(std::span(extents.data(), record.rank));
    } catch (const Error& error) {
      text_.fail(error.what());
    }
  }

  HeaderText text_;
  std::vector<Record>* records_ = nullptr;
  std::array<std::uint64_t, Shape::kMaxRank> extents_{};
};

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

std::string_view SafetensorsEntries::name_of(const Record& record) const {
  return std::string_view(*text_).substr(record.name, record.name_size);
}

SafetensorsEntry SafetensorsEntries::operator[](std::size_t index) const {
  const Record& record = records_[index];
  // "[2, 3]", checked when the header was read.
  std::array<std::int64_t, Shape::kMaxRank> extents{};
  std::size_t at = record.shape;
  for (std::size_t i = 0; i < record.rank; ++i) {
    while ((*text_)[at] < '0' || (*text_)[at] > '9') {
      ++at;
    }
    for (; (*text_)[at] >= '0' && (*text_)[at] <= '9'; ++at) {
      extents[i] = 10 * extents[i] + ((*text_)[at] - '0');
    }
  }
  return {name_of(record), record.dtype,
          Shape(std::span(extents.data(), record.rank)), record.begin,
          record.end};
}

std::optional<SafetensorsEntry> SafetensorsEntries::find(
    std::string_view name) const {
  const auto at = std::lower_bound(
      records_.begin(), records_.end(), name,
      [&](const Record& r, std::string_view n) { return name_of(r) < n; });
  if (at == records_.end() || name_of(*at) != name) {
    return std::nullopt;
  }
  return (*this)[static_cast<std::size_t>(at - records_.begin())];
}

std::uint64_t SafetensorsEntries::data_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const Record& record : records_) {
    total += record.end - record.begin;
  }
  return total;
}

void SafetensorsEntries::sort_by_name(std::string_view place) {
  std::sort(records_.begin(), records_.end(),
            [&](const Record& a, const Record& b) {
              return name_of(a) < name_of(b);
            });
  const auto twice = std::adjacent_find(records_.begin(), records_.end(),
                                        [&](const Record& a, const Record& b) {
                                          return name_of(a) == name_of(b);
                                        });
  if (twice != records_.end()) {
    throw Error(Errc::corrupt_file, place,
                "header: duplicate key " + in_quotes(name_of(*twice)),
                kHeaderHint);
  }
}

void SafetensorsEntries::check_tiling(std::uint64_t data_bytes,
                                      std::string_view place) const {
  std::vector<std::uint32_t> order(records_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(records_[a].begin, records_[a].end) <
           std::pair(records_[b].begin, records_[b].end);
  });
  std::uint64_t expected = 0;
  for (const std::uint32_t index : order) {
    const Record& record = records_[index];
    if (record.begin != expected) {
      throw Error(Errc::corrupt_file, place,
                  "tensor " + in_quotes(name_of(record)) +
                      (record.begin < expected ? " overlaps another"
                                               : " leaves a gap") +
                      ": got offset " + std::to_string(record.begin) +
                      ", expected " + std::to_string(expected),
                  kHeaderHint);
    }
    expected = record.end;
  }
  if (expected != data_bytes) {
    throw Error(Errc::corrupt_file, place,
                "the file does not end where its tensors do: got " +
                    std::to_string(data_bytes) + " data bytes, expected " +
                    std::to_string(expected),
                kHeaderHint);
  }
}

SafetensorsHeader parse_safetensors_header(std::string json,
                                           std::uint64_t data_bytes,
                                           std::string_view place) {
  require(!json.empty() && json.front() == '{', Errc::corrupt_file, place,
          "the header does not begin with '{'", kHeaderHint);
  const auto text = std::make_shared<std::string>(std::move(json));
  SafetensorsHeader header;
  header.entries.text_ = text;
  HeaderParser(*text, place).parse(header.entries.records_, header.metadata);
  header.entries.sort_by_name(place);
  header.entries.check_tiling(data_bytes, place);
  return header;
}

}  // namespace troupe::models
