#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/core/error.h"
#include "kernels/core/system/atomic_file.h"
#include "models/files/safetensors.h"

namespace troupe::models {
namespace {

std::string_view file_name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  return "U8";
}

/// The length, the header and spaces up to `least` bytes, and to a multiple of
/// eight.
std::string head_of(const nlohmann::ordered_json& header, std::size_t least) {
  std::string text = header.dump();
  std::uint64_t length = std::max(text.size() + sizeof(length), least);
  length += (8 - length % 8) % 8 - sizeof(length);
  text.resize(length, ' ');
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) +
         text;
}

nlohmann::ordered_json entry_of(DType dtype, const Shape& shape,
                                std::uint64_t begin, std::uint64_t end) {
  const auto extents = shape.extents();
  return {{"dtype", file_name_of(dtype)},
          {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
          {"data_offsets", {begin, end}}};
}

}  // namespace

std::string safetensors_head(const std::string& name, DType dtype,
                             const Shape& shape, std::size_t least) {
  const auto bytes =
      static_cast<std::uint64_t>(shape.num_elements()) * size_of(dtype);
  nlohmann::ordered_json header;
  header[name] = entry_of(dtype, shape, 0, bytes);
  return head_of(header, least);
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const FileRule& rule) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) {
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const auto wide_a = size_of(a->tensor.dtype());
    const auto wide_b = size_of(b->tensor.dtype());
    return wide_a != wide_b ? wide_a > wide_b : a->name < b->name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = metadata;
  }
  std::uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    require(!header.contains(named->name), Errc::invalid_argument,
            path.string(), "two tensors are named '" + named->name + "'");
    const std::uint64_t end = offset + named->tensor.num_bytes();
    header[named->name] =
        entry_of(named->tensor.dtype(), named->tensor.shape(), offset, end);
    offset = end;
  }
  const std::string head = head_of(header, 0);
  AtomicFile file(path, rule);
  file.write(std::as_bytes(std::span(head)));
  for (const NamedTensor* named : order) {
    file.write(named->tensor.bytes());
  }
  file.commit();
}

}  // namespace troupe::models
