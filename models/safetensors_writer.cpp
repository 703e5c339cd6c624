#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "models/safetensors.h"

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

}  // namespace

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
    const auto extents = named->tensor.shape().extents();
    header[named->name] = {
        {"dtype", file_name_of(named->tensor.dtype())},
        {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
        {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();

  AtomicFile file(path, rule);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const NamedTensor* named : order) {
    file.write(named->tensor.bytes());
  }
  file.commit();
}

}  // namespace troupe::models
