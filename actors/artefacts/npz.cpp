#include "actors/artefacts/npz.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "actors/artefacts/crc32.h"
#include "config/parse_value.h"
#include "kernels/core/error.h"

namespace troupe::actors {
namespace {

using Bytes = std::vector<std::byte>;

constexpr const char* kNoSuchType =
    "an element type that is neither a whole number nor float16, float32 or "
    "float64, in little-endian order";
constexpr const char* kAsFloat = "save array.astype('float32')";

void put(Bytes& out, std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), begin, begin + text.size());
}
void put(Bytes& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}
void put_little(Bytes& out, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) {
    out.push_back(static_cast<std::byte>(value & 255U));
    value >>= 8U;
  }
}
/// Numbers, each in so many bytes.
void put_little(Bytes& out,
                std::initializer_list<std::pair<std::uint64_t, int>> numbers) {
  for (const auto& [value, count] : numbers) {
    put_little(out, value, count);
  }
}
std::uint64_t get_little(std::span<const std::byte> bytes, std::size_t at,
                         int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) {
    value = (value << 8U) |
            static_cast<std::uint64_t>(bytes[at + static_cast<std::size_t>(i)]);
  }
  return value;
}

/// Elements of a file become those of a tensor.
template <typename From, typename To>
void convert(std::span<const std::byte> data, Tensor& out) {
  std::size_t at = 0;
  for (To& element : out.span<To>()) {
    From value{};
    std::memcpy(&value, data.data() + at, sizeof value);
    if constexpr (requires { value.to_float(); }) {
      element = value.to_float();
    } else {
      element = static_cast<To>(value);
    }
    at += sizeof value;
  }
}
template <typename From>
constexpr auto to_i64 = convert<From, std::int64_t>;

/// A type of NumPy's, and the type of tensors that holds its numbers.
struct ElementType {
  std::string_view descr;
  DType dtype;
  /// Null: the bytes are the same, and tensors are written as this type.
  void (*read)(std::span<const std::byte>, Tensor&) = nullptr;
};
constexpr auto kTypes = std::to_array<ElementType>({
    {"<f4", DType::f32},
    {"<i8", DType::i64},
    {"|u1", DType::u8},
    {"<f2", DType::f32, convert<float16, float>},
    {"<f8", DType::f32, convert<double, float>},
    {"|b1", DType::u8},
    {"|i1", DType::i64, to_i64<std::int8_t>},
    {"<i2", DType::i64, to_i64<std::int16_t>},
    {"<u2", DType::i64, to_i64<std::uint16_t>},
    {"<i4", DType::i64, to_i64<std::int32_t>},
    {"<u4", DType::i64, to_i64<std::uint32_t>},
    {"<u8", DType::i64, to_i64<std::uint64_t>},
});

std::string_view descr_of(DType dtype) {
  const auto* const found =
      std::ranges::find_if(kTypes, [dtype](const ElementType& type) {
        return type.dtype == dtype && type.read == nullptr;
      });
  require(found != kTypes.end(), Errc::unsupported, "npy",
          "NumPy has no such element type: " + std::string(to_string(dtype)));
  return found->descr;
}

/// What a local header and its directory entry share, from "version needed"
/// to the length of the name.
void put_entry(Bytes& out, std::string_view name, std::uint32_t crc,
               std::size_t size) {
  constexpr std::uint32_t kFirstOf1980 = (1U << 5U) | 1U;
  constexpr std::uint64_t kStored = 0;
  put_little(out, {{20, 2}, {0, 2}, {kStored, 2}, {0, 2}, {kFirstOf1980, 2}});
  put_little(out, {{crc, 4}, {size, 4}, {size, 4}, {name.size(), 2}});
}

/// The text after 'key': in the header's dictionary.
std::optional<std::string_view> dictionary_value(std::string_view header,
                                                 std::string_view key) {
  std::string quoted("'");
  quoted.append(key).append("':");
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  std::string_view rest = header.substr(at + quoted.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

/// Nothing where there is no shape, or one that no file can hold.
std::optional<Shape> parse_shape(std::string_view text) {
  if (!text.starts_with('(') || text.find(')') == std::string_view::npos) {
    return std::nullopt;
  }
  text = text.substr(1, text.find(')') - 1);
  std::vector<std::int64_t> extents;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(at, end, extent);
    if (error != std::errc{} || extent < 0 ||
        extents.size() == Shape::kMaxRank) {
      return std::nullopt;
    }
    extents.push_back(extent);
    at = rest;
  }
  try {
    return Shape(std::span<const std::int64_t>(extents));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The quoted name at the front of `text`: "<f4"; empty if no quoted name
/// stands there, as for records.
std::string element_type(std::string_view text) {
  if (!text.starts_with('\'')) {
    return {};
  }
  return std::string(text.substr(1, text.find('\'', 1) - 1));
}

/// Bytes of one element of a plain number type, 0 for any other.
std::size_t element_bytes(std::string_view name) {
  constexpr std::size_t kPlain = 3;  // "<f4"; complex128 is "<c16"
  if (name.size() < kPlain ||
      std::string_view("fiubc").find(name[1]) == std::string_view::npos) {
    return 0;
  }
  std::size_t bytes = 0;
  constexpr std::size_t kMost = 32;
  return config::read_number(name.substr(2), bytes) && bytes <= kMost ? bytes
                                                                      : 0;
}

}  // namespace

std::vector<std::byte> npy_head(DType dtype, const Shape& shape,
                                std::size_t least) {
  const auto extents = shape.extents();
  std::string header = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      descr_of(dtype), fmt::join(extents, ", "),
      extents.size() == 1 ? "," : "");
  constexpr std::size_t kPreamble = 10;
  constexpr std::size_t kAlignment = 64;
  const auto size = [&] { return kPreamble + header.size() + 1; };
  while (size() < least || size() % kAlignment != 0) {
    header += ' ';
  }
  header += '\n';
  Bytes bytes;
  put(bytes, "\x93NUMPY");
  put_little(bytes, 1, 2);  // version 1.0
  put_little(bytes, header.size(), 2);
  put(bytes, header);
  return bytes;
}

std::vector<std::byte> encode_npy(const Tensor& tensor) {
  Bytes out = npy_head(tensor.dtype(), tensor.shape());
  out.reserve(out.size() + tensor.num_bytes());
  put(out, tensor.bytes());
  return out;
}

std::vector<std::byte> NpzFrame::begin(const std::string& name,
                                       std::uint64_t size, std::uint32_t crc) {
  const std::string file = name + ".npy";
  Bytes head;
  put(head, "PK\x03\x04");
  put_entry(head, file, crc, size);
  put_little(head, 0, 2);
  put(head, file);
  const std::uint64_t after = offset_ + head.size() + size;
  require(after < kMostBytes, Errc::unsupported, "npz",
          "the archive would be larger than 4 GiB",
          "save to a .safetensors file");
  put(directory_, "PK\x01\x02");
  put_little(directory_, 20, 2);
  put_entry(directory_, file, crc, size);
  put_little(directory_, 0, 2 + 2 + 2 + 2 + 4);
  put_little(directory_, offset_, 4);
  put(directory_, file);
  offset_ = after;
  ++members_;
  return head;
}

std::vector<std::byte> NpzFrame::end() {
  require(directory_.size() < kMostBytes && members_ < 0xFFFFU,
          Errc::unsupported, "npz",
          "the archive would have more than the plain zip format can count",
          "save to a .safetensors file");
  Bytes out = std::move(directory_);
  const std::size_t size = out.size();
  put(out, "PK\x05\x06");
  put_little(out, {{0, 4}, {members_, 2}, {members_, 2}});
  put_little(out, {{size, 4}, {offset_, 4}, {0, 2}});
  return out;
}

std::vector<std::byte> encode_npz(std::span<const NamedTensor> tensors) {
  constexpr std::size_t kHeaders = 1024;  // of one member, at most
  Bytes out;
  NpzFrame frame;
  std::size_t whole = 0;
  for (const NamedTensor& item : tensors) {
    whole += item.tensor.num_bytes() + kHeaders + 2 * item.name.size();
  }
  out.reserve(std::min<std::size_t>(whole, NpzFrame::kMostBytes));
  for (const NamedTensor& item : tensors) {
    const Bytes head = npy_head(item.tensor.dtype(), item.tensor.shape());
    const std::span<const std::byte> elements = item.tensor.bytes();
    put(out, frame.begin(item.name, head.size() + elements.size(),
                         crc32(elements, crc32(head))));
    put(out, head);
    put(out, elements);
  }
  put(out, frame.end());
  return out;
}

NpyView view_npy(const std::string& place, std::span<const std::byte> bytes) {
  const auto check = [&](bool good, std::string_view what) {
    require(good, Errc::corrupt_file, place, what,
            "write the array anew with np.save or np.savez");
  };
  constexpr std::string_view kMagic = "\x93NUMPY";
  check(bytes.size() >= 12 &&
            std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0,
        "not a .npy file: its first bytes are not NumPy's");
  check(bytes[6] >= std::byte{1} && bytes[6] <= std::byte{3},
        "a version of .npy other than 1 to 3");
  const bool long_header = bytes[6] != std::byte{1};
  const std::size_t start = long_header ? 12 : 10;
  const std::size_t length = get_little(bytes, 8, long_header ? 4 : 2);
  check(length <= bytes.size() - start, "the .npy header is cut off");
  const std::string_view header(
      reinterpret_cast<const char*>(bytes.data()) + start, length);
  const auto descr = dictionary_value(header, "descr");
  const auto order = dictionary_value(header, "fortran_order");
  const auto shape_at = dictionary_value(header, "shape");
  check(descr && order && shape_at, "the .npy header lacks a key");
  const auto shape = parse_shape(*shape_at);
  check(shape.has_value(), "the .npy header has no readable shape");
  const std::span<const std::byte> data = bytes.subspan(start + length);
  const std::string name = element_type(*descr);
  const std::size_t size = element_bytes(name);
  require(size > 0, Errc::unsupported, place, kNoSuchType, kAsFloat);
  check(
      data.size() % size == 0 &&
          data.size() / size == static_cast<std::size_t>(shape->num_elements()),
      "the .npy data does not have the size its header says");
  return {name, *shape, data, order->starts_with("True")};
}

std::vector<std::byte> row_major(const NpyView& array) {
  std::vector<std::byte> bytes(array.data.begin(), array.data.end());
  if (!array.is_fortran || bytes.empty()) {
    return bytes;
  }
  const std::size_t size = element_bytes(array.descr);
  const auto extents = array.shape.extents();
  const auto count = static_cast<std::size_t>(array.shape.num_elements());
  for (std::size_t i = 0; i < count; ++i) {
    // The last axis is the fastest here, and the slowest in the file.
    std::size_t rest = i;
    std::size_t stride = count;
    std::size_t from = 0;
    for (std::size_t axis = extents.size(); axis-- > 0;) {
      const auto extent = static_cast<std::size_t>(extents[axis]);
      stride /= extent;
      from += rest % extent * stride;
      rest /= extent;
    }
    std::memcpy(bytes.data() + i * size, array.data.data() + from * size, size);
  }
  return bytes;
}

Tensor tensor_of(const std::string& place, const NpyView& array) {
  const auto* const type =
      std::ranges::find(kTypes, array.descr, &ElementType::descr);
  require(type != kTypes.end(), Errc::unsupported, place, kNoSuchType,
          kAsFloat);
  Tensor tensor(array.shape, type->dtype);
  std::vector<std::byte> sorted;
  if (array.is_fortran) {
    sorted = row_major(array);
  }
  const std::span<const std::byte> data =
      array.is_fortran ? std::span<const std::byte>(sorted) : array.data;
  if (type->read == nullptr) {
    std::ranges::copy(data, tensor.bytes().begin());
  } else {
    type->read(data, tensor);
  }
  return tensor;
}

Tensor decode_npy(const std::string& place, std::span<const std::byte> bytes) {
  return tensor_of(place, view_npy(place, bytes));
}

std::vector<NpzMember> view_npz(const std::string& place,
                                std::span<const std::byte> bytes) {
  const auto check = [&](bool good) {
    require(good, Errc::corrupt_file, place, "not a readable .npz archive",
            "write it anew with np.savez");
  };
  constexpr std::size_t kEnd = 22;
  constexpr std::size_t kEntry = 46;
  constexpr std::size_t kLocal = 30;
  check(bytes.size() >= kEnd);
  const std::size_t end = bytes.size() - kEnd;
  check(get_little(bytes, end, 4) == 0x06054b50U);
  const std::size_t count = get_little(bytes, end + 10, 2);
  std::size_t at = get_little(bytes, end + 16, 4);
  std::vector<NpzMember> members;
  std::size_t room = bytes.size();
  for (std::size_t i = 0; i < count; ++i) {
    check(at <= end && end - at >= kEntry &&
          get_little(bytes, at, 4) == 0x02014b50U);
    const std::size_t method = get_little(bytes, at + 10, 2);
    require(method == 0, Errc::unsupported, place, "a compressed .npz archive",
            "write it with np.savez, not np.savez_compressed");
    const std::size_t size = get_little(bytes, at + 24, 4);
    const std::size_t name_size = get_little(bytes, at + 28, 2);
    const std::size_t extra =
        get_little(bytes, at + 30, 2) + get_little(bytes, at + 32, 2);
    const std::size_t local = get_little(bytes, at + 42, 4);
    check(end - at - kEntry >= name_size + extra && local <= end &&
          end - local >= kLocal);
    std::string name(reinterpret_cast<const char*>(bytes.data()) + at + kEntry,
                     name_size);
    const std::size_t skip = kLocal + get_little(bytes, local + 26, 2) +
                             get_little(bytes, local + 28, 2);
    check(end - local >= skip && end - local - skip >= size);
    // Members that share their bytes would let a small file fill the memory.
    check(size <= room);
    room -= size;
    const auto data = bytes.subspan(local + skip, size);
    check(crc32(data) == get_little(bytes, at + 16, 4));
    if (name.ends_with(".npy")) {
      name.resize(name.size() - 4);
    }
    std::string member = place + ":" + name;
    members.push_back({std::move(name), std::move(member), data});
    at += kEntry + name_size + extra;
  }
  return members;
}

}  // namespace troupe::actors
