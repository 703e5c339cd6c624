#include "actors/wire/record_codec.h"

#include "kernels/core/system/exit_codes.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {

void refuse(const std::string& what) {
  throw Error(Errc::corrupt_file, "record", what,
              "it was damaged or cut on its way, or comes from another version "
              "of Troupe");
}

void RecordReader::refuse_value(const std::string& got) const {
  refuse(std::string(key_ == nullptr ? "message" : key_->name) + ": got " +
         got);
}

void RecordReader::refuse_end() { refuse("its bytes are cut or changed"); }

std::uint64_t RecordReader::varint() {
  std::uint64_t value = 0;
  constexpr unsigned kBits = 64;
  for (unsigned shift = 0; shift < kBits; shift += 7) {
    if (from_.empty()) {
      refuse_end();
    }
    const auto byte = static_cast<unsigned char>(from_.front());
    from_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) {
      return value;
    }
  }
  refuse_end();
}

std::string_view RecordReader::take(std::uint64_t size) {
  if (size > from_.size()) {
    refuse_end();
  }
  const std::string_view taken = from_.substr(0, size);
  from_.remove_prefix(size);
  return taken;
}

bool RecordReader::is_next() {
  const std::string_view before = from_;
  const bool is_it = !from_.empty() && varint() >> 3U == number_;
  from_ = before;
  return is_it;
}

bool RecordReader::has(WireType type) {
  const std::uint32_t tag = number_ << 3U | static_cast<std::uint32_t>(type);
  constexpr std::uint32_t kOneByte = 0x80;
  if (tag < kOneByte) {
    if (from_.empty() || static_cast<unsigned char>(from_.front()) != tag) {
      return false;
    }
    from_.remove_prefix(1);
    return true;
  }
  const std::string_view before = from_;
  if (!from_.empty() && varint() == tag) {
    return true;
  }
  from_ = before;
  return false;
}

void RecordReader::count_entry() {
  if (--entries_left_ < 0) {
    refuse("more entries than a message has");
  }
}

std::uint64_t RecordReader::narrowed(std::uint64_t number,
                                     std::uint64_t most) const {
  if (number > std::min(most, key_->most)) {
    refuse_value(std::to_string(number) + ", expected at most " +
                 std::to_string(std::min(most, key_->most)));
  }
  return number;
}

std::uint64_t RecordReader::bounded(std::uint64_t number) const {
  return narrowed(number, key_->most);
}

void RecordReader::bare(int& value) {
  const auto number = static_cast<std::int64_t>(varint());
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<int>::min();
  if (number > kMost || number < (ints_ == Ints::natural ? 0 : kLeast)) {
    refuse_value(std::to_string(number));
  }
  if (number > 0) {
    (void)bounded(static_cast<std::uint64_t>(number));
  }
  value = static_cast<int>(number);
}

void RecordReader::get(Errc& code) {
  const std::string_view its = name();
  const std::span<const Errc> all = all_error_codes();
  const auto found = std::ranges::find_if(
      all, [&](Errc one) { return to_string(one) == its; });
  if (found == all.end()) {
    refuse_name(its);
  }
  code = *found;
}

void RecordReader::refuse_name(std::string_view name) const {
  refuse_value(in_quotes(name) +
               ", which this version of Troupe does not know");
}

std::size_t RecordReader::place_in(const std::vector<std::string>& names,
                                   std::string_view name) const {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) {
    refuse_name(name);
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::size_t RecordReader::varints_in(std::string_view bytes) {
  return static_cast<std::size_t>(std::ranges::count_if(
      bytes, [](char c) { return static_cast<unsigned char>(c) < 0x80U; }));
}

std::size_t RecordReader::entries_ahead() const {
  int none = 0;
  RecordReader ahead(from_, none, ints_);
  ahead.number_ = number_;
  ahead.key_ = key_;
  std::size_t count = 0;
  while (ahead.has(WireType::bytes)) {
    (void)ahead.take(ahead.varint());
    ++count;
  }
  (void)bounded(count);
  if (count > static_cast<std::size_t>(std::max(entries_left_, 0))) {
    refuse("more entries than a message has: got " + std::to_string(count));
  }
  return count;
}

// ---- tensors

void check_elements(DType dtype, std::span<const std::int64_t> shape,
                    std::size_t num_bytes) {
  // By division: a product of hostile extents may overflow.
  std::uint64_t left = num_bytes / size_of(dtype);
  bool fits = num_bytes % size_of(dtype) == 0 && !shape.empty() &&
              shape.size() <= Shape::kMaxRank;
  for (const std::int64_t extent : shape) {
    fits =
        fits && extent >= 1 && left % static_cast<std::uint64_t>(extent) == 0;
    left = fits ? left / static_cast<std::uint64_t>(extent) : left;
  }
  if (!fits || left != 1) {
    refuse("a tensor of " + std::to_string(num_bytes) +
           " bytes, expected those of its shape");
  }
}

}  // namespace troupe::actors::wire
