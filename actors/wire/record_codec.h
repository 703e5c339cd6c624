#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/message_fields.h"
#include "config/enum_names.h"
#include "kernels/core/error.h"
#include "kernels/core/tensor.h"

// Structs with a list of fields as protobuf messages, and back. wire.proto
// describes them; its text is made from the lists (tests/actors). A message has
// its fields in their order and each once, as protobuf's own serializers write
// it, so a record is read in one pass over its list. Not included outside this
// folder and its tests.

namespace troupe::actors {

/// A tensor of a parcel without its elements. One without a shape is empty.
struct TensorOutline {
  std::string name;
  std::optional<DType> dtype;
  std::vector<std::int64_t> shape;
};
void visit_fields(auto& visit, AnyConst<TensorOutline> auto& r) {
  visit("name", r.name);
  visit("dtype", r.dtype);
  visit("shape", r.shape);
}

struct ParcelOutline {
  std::vector<TensorOutline> tensors;
};
void visit_fields(auto& visit, AnyConst<ParcelOutline> auto& r) {
  visit("tensors", r.tensors);
}

}  // namespace troupe::actors

namespace troupe::actors::wire {

/// Ends the reading of a record. Errors: Errc::corrupt_file, always.
[[noreturn]] void refuse(const std::string& what);

/// Errors: Errc::corrupt_file unless so many bytes are those of the shape.
void check_elements(DType dtype, std::span<const std::int64_t> shape,
                    std::size_t num_bytes);

enum class WireType : std::uint8_t {
  varint = 0,
  fixed64 = 1,
  bytes = 2,
  fixed32 = 5
};

/// Enums that travel ten thousand times a second: by number, others by name.
constexpr samplers::Branch last_of(samplers::Branch /*kind*/) {
  return samplers::Branch::uncond;
}
template <typename T>
concept NumberedEnum = requires {
  last_of(T{});
};

/// Entries of a list that lie in one field, without a tag each.
template <typename T>
inline constexpr bool kIsPacked =
    std::is_arithmetic_v<T> || std::same_as<T, samplers::NoiseLevel>;

/// Makes a message of a struct.
class RecordWriter {
 public:
  template <typename T>
  static std::string write(const T& record) {
    std::string bytes;
    RecordWriter(bytes).fields(record);
    return bytes;
  }

  template <typename T>
  void operator()(const FieldKey& key, const T& value) {
    ++number_;
    put(key, value);
  }

 private:
  explicit RecordWriter(std::string& to) : to_(to) {}

  template <typename T>
  void fields(const T& record) {
    visit_fields(*this, record);
  }
  /// Alternative i is field i + 1.
  template <typename... Ts>
  void fields(const std::variant<Ts...>& one_of) {
    number_ = static_cast<std::uint32_t>(one_of.index()) + 1;
    std::visit([&](const auto& one) { message(one); }, one_of);
  }

  void varint(std::uint64_t value) {
    constexpr std::uint64_t kMore = 0x80;
    for (; value >= kMore; value >>= 7U) {
      to_ += static_cast<char>(value | kMore);
    }
    to_ += static_cast<char>(value);
  }
  template <typename T>
  void raw(T value) {
    to_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void tag(WireType type) {
    varint(number_ << 3U | static_cast<std::uint32_t>(type));
  }
  void text(std::string_view text) {
    tag(WireType::bytes);
    varint(text.size());
    to_.append(text);
  }
  /// `write` writes what lies in a field of bytes.
  template <typename Write>
  void nested(const Write& write) {
    tag(WireType::bytes);
    const std::size_t at = to_.size();
    to_ += '\0';  // the length, if it is short
    write();
    const std::size_t size = to_.size() - at - 1;
    constexpr std::size_t kShort = 0x80;
    if (size < kShort) {
      to_[at] = static_cast<char>(size);
      return;
    }
    std::string length;
    RecordWriter(length).varint(size);
    to_.replace(at, 1, length);
  }
  template <typename T>
  void message(const T& record) {
    nested([&] { RecordWriter(to_).fields(record); });
  }

  // ---- how a value looks in a list; without a tag, if it has a fixed form

  void bare(const FieldKey& key, std::uint64_t value) {
    key.is_hash ? raw(value) : varint(value);
  }
  void bare(const FieldKey& /*key*/, std::uint32_t value) { varint(value); }
  /// Of numbers below 0, as protobuf has it: 64 bits.
  template <std::signed_integral T>
  void bare(const FieldKey& /*key*/, T value) {
    varint(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
  void bare(const FieldKey& /*key*/, double value) { raw(value); }
  void bare(const FieldKey& /*key*/, float value) { raw(value); }
  /// Levels lie flat in one list of numbers.
  void bare(const FieldKey& /*key*/, const samplers::NoiseLevel& level) {
    const auto number = [&](const FieldKey& /*key*/, double value) {
      raw(value);
    };
    visit_fields(number, level);
  }

  // ---- a field; nothing for a zero and for an empty list

  template <std::integral T>
  void put(const FieldKey& key, T value) {
    if (value != 0) {
      always(key, value);
    }
  }
  void put(const FieldKey& key, double value) {
    if (std::bit_cast<std::uint64_t>(value) != 0) {
      always(key, value);
    }
  }
  void put(const FieldKey& key, const std::string& its) {
    if (!its.empty()) {
      always(key, its);
    }
  }
  template <NumberedEnum T>
  void put(const FieldKey& key, T value) {
    put(key, static_cast<std::uint32_t>(value));
  }
  void put(const FieldKey& key, samplers::Op op) { put(key, op.number()); }
  void put(const FieldKey& /*key*/, Duration value) {
    if (const std::int64_t count = value.count(); count != 0) {
      tag(WireType::varint);
      varint(static_cast<std::uint64_t>(count) << 1U ^
             static_cast<std::uint64_t>(count >> 63U));
    }
  }
  void put(const FieldKey& key, TimePoint value) {
    put(key, value.time_since_epoch());
  }
  /// The number of a GPU; nothing for the CPU.
  void put(const FieldKey& key, const Device& device) {
    if (device.kind == DeviceKind::cuda) {
      always(key, device.index);
    }
  }
  template <typename T>
  requires(HasFields<T> || config::NamedEnum<T> || NamedRow<T> ||
           std::same_as<T, Errc>) void put(const FieldKey& key,
                                           const T& value) {
    always(key, value);
  }
  template <typename... Ts>
  void put(const FieldKey& /*key*/, const std::variant<Ts...>& one_of) {
    message(one_of);
  }
  template <MaybeUnset T>
  requires(!std::is_arithmetic_v<T> &&
           !NamedRow<T>) void put(const FieldKey& key, const T& value) {
    if (value) {
      always(key, *value);
    }
  }
  template <typename T>
  void put(const FieldKey& key, const std::vector<T>& values) {
    const std::uint64_t most = key.is_cut ? key.most : values.size();
    list(key, std::span(values.data(),
                        std::min<std::uint64_t>(values.size(), most)));
  }
  template <typename T, std::size_t N>
  void put(const FieldKey& key, const InlineVector<T, N>& values) {
    list(key, std::span(values.data(), values.size()));
  }

  // ---- a field, also of a zero

  void always(const FieldKey& /*key*/, bool value) {
    tag(WireType::varint);
    varint(value ? 1 : 0);
  }
  template <std::integral T>
  void always(const FieldKey& key, T value) {
    tag(key.is_hash ? WireType::fixed64 : WireType::varint);
    bare(key, value);
  }
  void always(const FieldKey& /*key*/, double value) {
    tag(WireType::fixed64);
    raw(value);
  }
  void always(const FieldKey& key, const std::string& its) {
    text(std::string_view(its).substr(0, key.is_cut ? key.most : its.size()));
  }
  template <config::NamedEnum T>
  void always(const FieldKey& /*key*/, T value) {
    text(config::name_of(value));
  }
  void always(const FieldKey& /*key*/, Errc code) { text(to_string(code)); }
  template <NamedRow T>
  void always(const FieldKey& /*key*/, const T& row) {
    text(name_of_row(row));
  }
  template <HasFields T>
  void always(const FieldKey& /*key*/, const T& record) {
    message(record);
  }

  template <typename T>
  void list(const FieldKey& key, std::span<const T> values) {
    if constexpr (kIsPacked<T>) {
      if (!values.empty()) {
        nested([&] {
          for (const T& value : values) {
            bare(key, value);
          }
        });
      }
    } else {
      for (const T& value : values) {
        always(FieldKey(key.name), value);
      }
    }
  }

  std::string& to_;
  std::uint32_t number_ = 0;
};

/// Whether a reader takes numbers of type int below 0.
enum class Ints : std::uint8_t {
  natural,  ///< no: they count something
  any       ///< yes: `check` of a job judges them
};

/// Makes a struct of a message. A field that the message lacks is 0, false or
/// empty, whatever the struct's own default. Refuses fields that the list has
/// not, fields that come twice or in another order, and numbers that are too
/// large for their member. Allocates in proportion to the bytes that are there.
class RecordReader {
 public:
  /// Errors: Errc::corrupt_file.
  template <typename T>
  static T read(std::span<const std::byte> bytes, int most_entries,
                Ints ints = Ints::natural) {
    int left = most_entries;
    T record{};
    RecordReader(text_of(bytes), left, ints).fields(record);
    return record;
  }

  template <typename T>
  void operator()(const FieldKey& key, T& value) {
    ++number_;
    key_ = &key;
    get(value);
  }

 private:
  RecordReader(std::string_view from, int& entries_left, Ints ints)
      : from_(from), entries_left_(entries_left), ints_(ints) {}

  static std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  template <typename T>
  void fields(T& record) {
    visit_fields(*this, record);
    if (!from_.empty()) {
      refuse(
          "a field that this version of Troupe does not know, or that comes "
          "twice");
    }
  }
  /// Refuses a message with none of the alternatives, or with two.
  template <typename... Ts>
  void fields(std::variant<Ts...>& one_of) {
    if (!(is_alternative<Ts>(one_of) || ...)) {
      refuse("a message of a kind that this version of Troupe does not know");
    }
    if (!from_.empty()) {
      refuse("two messages in one");
    }
  }
  /// Whether it is the next one; then it is read.
  template <typename T, typename Variant>
  bool is_alternative(Variant& one_of) {
    ++number_;
    const bool is_it = has(WireType::bytes);
    if (is_it) {
      nested(take(varint()), one_of.template emplace<T>());
    }
    return is_it;
  }
  /// A job's numbers may be below 0 here.
  template <typename T>
  void nested(std::string_view inner, T& record) {
    constexpr bool kIsOfJob =
        std::same_as<T, JobRecord> || std::same_as<T, ClassRecord>;
    RecordReader(inner, entries_left_, kIsOfJob ? Ints::any : ints_)
        .fields(record);
  }

  [[noreturn]] void refuse_value(const std::string& got) const;
  [[noreturn]] static void refuse_end();
  std::uint64_t varint();
  std::string_view take(std::uint64_t size);
  template <typename T>
  T raw() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  /// Whether the next field is this one; then the value follows.
  bool has(WireType type);
  void count_entry();
  std::uint64_t bounded(std::uint64_t number) const;

  // ---- how a value looks in a list

  void bare(std::uint64_t& value) {
    value = bounded(key_->is_hash ? raw<std::uint64_t>() : varint());
  }
  void bare(bool& value) { value = narrowed(varint(), 1) != 0; }
  void bare(std::uint32_t& value) {
    value = static_cast<std::uint32_t>(
        narrowed(varint(), std::numeric_limits<std::uint32_t>::max()));
  }
  void bare(std::int64_t& value) {
    value = static_cast<std::int64_t>(varint());
  }
  void bare(int& value);
  void bare(double& value) { value = raw<double>(); }
  void bare(float& value) { value = raw<float>(); }
  void bare(samplers::NoiseLevel& level) {
    const auto number = [&](const FieldKey& /*key*/, double& value) {
      value = raw<double>();
    };
    visit_fields(number, level);
  }
  std::uint64_t narrowed(std::uint64_t number, std::uint64_t most) const;

  // ---- a field

  template <typename T>
  WireType type_of() const {
    return std::same_as<T, double> || key_->is_hash ? WireType::fixed64
                                                    : WireType::varint;
  }
  template <typename T>
  requires std::is_arithmetic_v<T>
  void get(T& value) {
    value = 0;
    if (has(type_of<T>())) {
      bare(value);
    }
  }
  void get(std::string& its) {
    its.clear();
    if (has(WireType::bytes)) {
      its = text();
    }
  }
  std::string_view text() {
    const std::string_view its = take(varint());
    (void)bounded(its.size());
    return its;
  }
  template <NumberedEnum T>
  void get(T& value) {
    std::uint32_t number = 0;
    get(number);
    value = static_cast<T>(
        narrowed(number, static_cast<std::uint32_t>(last_of(T{}))));
  }
  void get(samplers::Op& op) {
    std::uint32_t number = 0;
    get(number);
    op = samplers::Op(samplers::kOpTable[narrowed(
        number, static_cast<std::uint32_t>(samplers::kOpTable.size() - 1))]);
  }
  void get(Duration& value) {
    value = {};
    if (has(WireType::varint)) {
      const std::uint64_t zigzag = varint();
      value = Duration(
          static_cast<std::int64_t>(zigzag >> 1U ^ (0 - (zigzag & 1U))));
    }
  }
  void get(TimePoint& value) {
    Duration since{};
    get(since);
    value = TimePoint(since);
  }
  void get(Device& device) {
    device = {};
    if (has(WireType::varint)) {
      device.kind = DeviceKind::cuda;
      bare(device.index);
    }
  }
  template <config::NamedEnum T>
  void get(T& value) {
    value = static_cast<T>(place_in(config::names_of<T>(), name()));
  }
  void get(Errc& code);
  void get(samplers::Solver& solver) {
    const auto table = samplers::solver_table();
    const std::string_view its = name();
    const auto found = std::ranges::find_if(
        table, [its](samplers::Solver one) { return one->name == its; });
    if (found == table.end()) {
      refuse_name(its);
    }
    solver = *found;
  }
  void get(samplers::MethodKind& kind) {
    const std::string_view its = name();
    const std::optional<samplers::MethodKind> found = config::find_method(its);
    if (!found) {
      refuse_name(its);
    }
    kind = *found;
  }
  std::string_view name() { return has(WireType::bytes) ? text() : ""; }
  [[noreturn]] void refuse_name(std::string_view name) const;
  std::size_t place_in(const std::vector<std::string>& names,
                       std::string_view name) const;
  template <typename... Ts>
  void get(std::variant<Ts...>& one_of) {
    nested(has(WireType::bytes) ? take(varint()) : std::string_view(), one_of);
  }
  template <HasFields T>
  void get(T& record) {
    nested(has(WireType::bytes) ? take(varint()) : std::string_view(), record);
  }
  template <typename T>
  void get(std::optional<T>& value) {
    value.reset();
    if (is_next()) {
      get(value.emplace());
    }
  }
  template <typename T>
  void get(std::shared_ptr<const T>& value) {
    value = nullptr;
    if (is_next()) {
      auto record = std::make_shared<T>();
      get(*record);
      value = std::move(record);
    }
  }
  /// Of any type.
  [[nodiscard]] bool is_next();

  template <typename T, std::size_t N>
  void get(InlineVector<T, N>& values) {
    values = {};
    if (has(WireType::bytes)) {
      RecordReader inner(take(varint()), entries_left_, ints_);
      inner.key_ = key_;
      while (!inner.from_.empty()) {
        T value{};
        inner.bare(value);
        values.push_back(value);
      }
    }
  }
  template <typename T>
  void get(std::vector<T>& values) {
    values.clear();
    if constexpr (kIsPacked<T>) {
      if (has(WireType::bytes)) {
        RecordReader inner(take(varint()), entries_left_, ints_);
        inner.key_ = key_;
        values.reserve(inner.packed_count<T>());
        while (!inner.from_.empty()) {
          inner.bare(values.emplace_back());
        }
        (void)bounded(values.size());
      }
    } else {
      values.reserve(entries_ahead());
      while (has(WireType::bytes)) {
        count_entry();
        const std::string_view entry = take(varint());
        if constexpr (HasFields<T>) {
          nested(entry, values.emplace_back());
        } else {
          values.emplace_back(entry);
        }
      }
    }
  }
  template <typename T>
  [[nodiscard]] std::size_t packed_count() const {
    if constexpr (std::is_floating_point_v<T>) {
      return from_.size() / sizeof(T);
    } else if constexpr (!std::is_arithmetic_v<T>) {
      return from_.size() / sizeof(T);  // four numbers each
    } else {
      return key_->is_hash ? from_.size() / sizeof(T) : varints_in(from_);
    }
  }
  static std::size_t varints_in(std::string_view bytes);
  /// Entries of this field that follow. Errors: more than its bound.
  [[nodiscard]] std::size_t entries_ahead() const;

  std::string_view from_;
  int& entries_left_;
  Ints ints_;
  std::uint32_t number_ = 0;
  const FieldKey* key_ = nullptr;
};

}  // namespace troupe::actors::wire
