#include "actors/cli/stored_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "actors/artefacts/npz.h"
#include "actors/cli/latents_file.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/safetensors.h"

namespace troupe::actors {
namespace {

/// NumPy's names of what safetensors has too; others keep their own.
std::string safetensors_name(const std::string& descr) {
  constexpr std::array<std::pair<const char*, const char*>, 13> kNames = {
      {{"|b1", "BOOL"},
       {"|u1", "U8"},
       {"|i1", "I8"},
       {"<i2", "I16"},
       {"<u2", "U16"},
       {"<f2", "F16"},
       {"<i4", "I32"},
       {"<u4", "U32"},
       {"<f4", "F32"},
       {"<c8", "C64"},
       {"<f8", "F64"},
       {"<i8", "I64"},
       {"<u8", "U64"}}};
  for (const auto& [numpy, ours] : kNames) {
    if (descr == numpy) {
      return ours;
    }
  }
  return descr;
}

StoredTensor stored_npy(const std::string& name, const std::string& place,
                        std::span<const std::byte> file, bool with_bytes) {
  const NpyView view = view_npy(place, file);
  StoredTensor tensor{.name = name,
                      .dtype = safetensors_name(view.descr),
                      .shape = view.shape,
                      .num_bytes = view.data.size(),
                      .bytes = {}};
  if (with_bytes) {
    tensor.bytes.assign(view.data.begin(), view.data.end());
  }
  return tensor;
}

std::vector<StoredTensor> read(const std::filesystem::path& path,
                               bool with_bytes) {
  const std::string ending = path.extension().string();
  std::vector<StoredTensor> tensors;
  if (ending == ".safetensors") {
    const models::SafetensorsFile file(path);
    for (const models::SafetensorsEntry& entry : file.header().entries) {
      tensors.push_back(
          {std::string(entry.name), std::string(to_string(entry.dtype)),
           entry.shape, entry.end - entry.begin,
           with_bytes ? file.stored_bytes(entry) : std::vector<std::byte>()});
    }
    return tensors;
  }
  if (ending != ".npz" && ending != ".npy") {
    throw Error(Errc::invalid_argument, path.string(),
                "tensors are read from .safetensors, .npz or .npy",
                "save them in one of these formats");
  }
  const std::string content = read_file(path, kMaxTensorFileBytes);
  const auto bytes = std::as_bytes(std::span(content));
  if (ending == ".npy") {
    return {stored_npy("latents", path.string(), bytes, with_bytes)};
  }
  for (const NpzMember& member : view_npz(path.string(), bytes)) {
    tensors.push_back(stored_npy(member.name, path.string() + ":" + member.name,
                                 member.file, with_bytes));
  }
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  return tensors;
}

}  // namespace

std::vector<StoredTensor> read_stored(const std::filesystem::path& path) {
  return read(path, true);
}

std::vector<StoredTensor> read_stored_shapes(
    const std::filesystem::path& path) {
  return read(path, false);
}

std::string difference(const StoredTensor& a, const StoredTensor& b) {
  if (a.name != b.name) {
    return "tensor " + in_quotes(a.name) + " against " + in_quotes(b.name);
  }
  if (a.dtype != b.dtype || a.shape != b.shape) {
    return fmt::format("tensor {}: {} {} against {} {}", in_quotes(a.name),
                       printable(a.dtype), to_string(a.shape),
                       printable(b.dtype), to_string(b.shape));
  }
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) {
    different += a.bytes[i] == b.bytes[i] ? 0U : 1U;
  }
  return different == 0
             ? std::string()
             : fmt::format("tensor {}: {} of {} bytes differ",
                           in_quotes(a.name), different, a.bytes.size());
}

}  // namespace troupe::actors
