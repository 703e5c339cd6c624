#include "actors/wire/job_codec.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <utility>

#include "actors/job_fields.h"
#include "actors/wire/message.h"
#include "actors/wire/news_parts.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"

namespace troupe::actors::wire {
namespace {

namespace proto = troupe::wire;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::uint32_t kFormat = 1;
/// Entries of a list of messages: an empty one takes two bytes of a record and
/// a hundred in memory.
constexpr int kMostMessages = 1 << 16;

/// The field of this key. Every key of job_fields.h has one: a test encodes
/// them all.
const FieldDescriptor& field_of(const Message& message, std::string_view key) {
  const FieldDescriptor* field =
      message.GetDescriptor()->FindFieldByName(std::string(key));
  require(
      field != nullptr, Errc::internal, "wire.proto",
      message.GetDescriptor()->name() + " lacks the field " + std::string(key));
  return *field;
}

// A number as the message holds it: floating point as its bits.
std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

/// Puts fields into a message of the same names.
class Writer {
 public:
  explicit Writer(Message& to) : to_(to), by_(*to.GetReflection()) {}

  template <typename T>
  void operator()(const char* key, const T& value) {
    put(field_of(to_, key), value);
  }

 private:
  using Field = const FieldDescriptor&;

  void put(Field f, bool value) { by_.SetBool(&to_, &f, value); }
  void put(Field f, int value) { by_.SetInt32(&to_, &f, value); }
  void put(Field f, std::int64_t value) { by_.SetInt64(&to_, &f, value); }
  void put(Field f, std::uint64_t value) { by_.SetUInt64(&to_, &f, value); }
  void put(Field f, double value) { by_.SetUInt64(&to_, &f, bits_of(value)); }
  void put(Field f, const std::string& text) { by_.SetString(&to_, &f, text); }
  template <config::NamedEnum T>
  void put(Field f, T value) {
    put(f, config::name_of(value));
  }
  template <NamedRow T>
  void put(Field f, const T& row) {
    put(f, std::string(row->name));
  }
  template <HasFields T>
  void put(Field f, const T& record) {
    Writer inner(*by_.MutableMessage(&to_, &f));
    visit_fields(inner, record);
  }
  template <typename T>
  void put(Field f, const std::optional<T>& value) {
    if (value) {
      put(f, *value);
    }
  }
  template <typename T>
  void put(Field f, const std::shared_ptr<T>& value) {
    if (value) {
      put(f, *value);
    }
  }

  void add(Field f, int value) { by_.AddInt32(&to_, &f, value); }
  void add(Field f, std::int64_t value) { by_.AddInt64(&to_, &f, value); }
  void add(Field f, std::uint64_t value) { by_.AddUInt64(&to_, &f, value); }
  void add(Field f, double value) { by_.AddUInt64(&to_, &f, bits_of(value)); }
  void add(Field f, float value) { by_.AddUInt32(&to_, &f, bits_of(value)); }
  /// Levels lie flat in one list.
  void add(Field f, const samplers::NoiseLevel& level) {
    const auto flat = [&](const char*, double value) { add(f, value); };
    visit_fields(flat, level);
  }
  template <HasFields T>
  void add(Field f, const T& record) {
    Writer inner(*by_.AddMessage(&to_, &f));
    visit_fields(inner, record);
  }
  template <typename T>
  void put(Field f, const std::vector<T>& values) {
    for (const T& value : values) {
      add(f, value);
    }
  }

  Message& to_;
  const Reflection& by_;
};

/// Takes fields out of a message of the same names. What a message lacks has
/// protobuf's default, 0 or empty, which `check` then judges.
class Reader {
 public:
  explicit Reader(const Message& from)
      : from_(from), by_(*from.GetReflection()) {
    refuse_unknown_fields(from);
  }

  template <typename T>
  void operator()(const char* key, T& value) {
    get(field_of(from_, key), value);
  }

 private:
  using Field = const FieldDescriptor&;

  void get(Field f, bool& value) { value = by_.GetBool(from_, &f); }
  void get(Field f, int& value) { value = by_.GetInt32(from_, &f); }
  void get(Field f, std::int64_t& value) { value = by_.GetInt64(from_, &f); }
  void get(Field f, std::uint64_t& value) { value = by_.GetUInt64(from_, &f); }
  void get(Field f, double& value) {
    value = std::bit_cast<double>(by_.GetUInt64(from_, &f));
  }
  void get(Field f, std::string& text) { text = by_.GetString(from_, &f); }
  template <config::NamedEnum T>
  void get(Field f, T& value) {
    const std::optional<T> named = value_named<T>(by_.GetString(from_, &f));
    expect_name(f, named.has_value());
    value = *named;
  }
  void get(Field f, samplers::Solver& row) {
    get_row(f, samplers::solver_table(), row);
  }
  void get(Field f, samplers::MethodKind& row) {
    get_row(f, samplers::method_table(), row);
  }
  template <typename Row>
  void get_row(Field f, std::span<const Row> table, Row& row) {
    const std::string name = by_.GetString(from_, &f);
    const auto found = std::ranges::find_if(
        table, [&](const Row& one) { return one->name == name; });
    expect_name(f, found != table.end());
    row = *found;
  }
  void expect_name(Field f, bool is_known) const {
    if (!is_known) {
      refuse(f.name() + ": got " + in_quotes(by_.GetString(from_, &f)) +
             ", which this version of Troupe does not know");
    }
  }
  template <HasFields T>
  void get(Field f, T& record) {
    Reader inner(by_.GetMessage(from_, &f));
    visit_fields(inner, record);
  }
  template <typename T>
  void get(Field f, std::optional<T>& value) {
    value.reset();
    if (by_.HasField(from_, &f)) {
      get(f, value.emplace());
    }
  }
  template <typename T>
  void get(Field f, std::shared_ptr<const T>& value) {
    value = nullptr;
    if (by_.HasField(from_, &f)) {
      auto record = std::make_shared<T>();
      get(f, *record);
      value = std::move(record);
    }
  }

  void at(Field f, int i, int& value) {
    value = by_.GetRepeatedInt32(from_, &f, i);
  }
  void at(Field f, int i, std::int64_t& value) {
    value = by_.GetRepeatedInt64(from_, &f, i);
  }
  void at(Field f, int i, std::uint64_t& value) {
    value = by_.GetRepeatedUInt64(from_, &f, i);
  }
  void at(Field f, int i, double& value) {
    value = std::bit_cast<double>(by_.GetRepeatedUInt64(from_, &f, i));
  }
  void at(Field f, int i, float& value) {
    value = std::bit_cast<float>(by_.GetRepeatedUInt32(from_, &f, i));
  }
  template <HasFields T>
  void at(Field f, int i, T& record) {
    Reader inner(by_.GetRepeatedMessage(from_, &f, i));
    visit_fields(inner, record);
  }
  template <typename T>
  void get(Field f, std::vector<T>& values) {
    const int count = by_.FieldSize(from_, &f);
    if (HasFields<T> && count > kMostMessages) {
      refuse(f.name() + ": got " + std::to_string(count) +
             " entries, expected at most " + std::to_string(kMostMessages));
    }
    values.assign(static_cast<std::size_t>(count), T{});
    for (int i = 0; i < count; ++i) {
      at(f, i, values[static_cast<std::size_t>(i)]);
    }
  }
  void get(Field f, std::vector<samplers::NoiseLevel>& levels) {
    constexpr int kNumbers = 4;
    const int count = by_.FieldSize(from_, &f);
    if (count % kNumbers != 0) {
      refuse(f.name() + ": got " + std::to_string(count) +
             " numbers, expected four per level");
    }
    levels.assign(static_cast<std::size_t>(count / kNumbers), {});
    int next = 0;
    for (samplers::NoiseLevel& level : levels) {
      const auto flat = [&](const char*, double& value) {
        at(f, next++, value);
      };
      visit_fields(flat, level);
    }
  }

  const Message& from_;
  const Reflection& by_;
};

}  // namespace

void write(const ClassRecord& record, proto::ExecutionClass& to) {
  Writer writer(to);
  visit_fields(writer, record);
}

ClassRecord read(const proto::ExecutionClass& from) {
  ClassRecord record;
  Reader reader(from);
  visit_fields(reader, record);
  return record;
}

std::string encode(const JobRecord& job) {
  proto::Job message;
  message.set_format(kFormat);
  Writer writer(message);
  visit_fields(writer, job);
  std::string bytes = message.SerializeAsString();
  require(bytes.size() <= kMostJobBytes, Errc::invalid_argument, "job record",
          "too large: got " + std::to_string(bytes.size()) +
              " bytes, expected at most " + std::to_string(kMostJobBytes),
          "split the job with --samples A:B");
  return bytes;
}

JobRecord read_job(std::span<const std::byte> bytes) {
  proto::Job message;
  parse(bytes, kMostJobBytes, message);
  if (message.format() != kFormat) {
    refuse("format " + std::to_string(message.format()) + ", expected " +
           std::to_string(kFormat));
  }
  JobRecord job;
  Reader reader(message);
  visit_fields(reader, job);
  return job;
}

JobRecord decode_job(std::span<const std::byte> bytes,
                     models::DenoiserTable table) {
  JobRecord job = read_job(bytes);
  check(job, table);
  return job;
}

}  // namespace troupe::actors::wire
