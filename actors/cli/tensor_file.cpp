#include "actors/cli/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "actors/artefacts/npz.h"
#include "config/suggest.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/files/safetensors.h"
#include "models/files/stored_values.h"

namespace troupe::actors {
namespace {

/// Latents of ten thousand large images; more is a mistake.
constexpr std::size_t kMaxTensorFileBytes = std::size_t{4} << 30U;

bool has_known_ending(const std::filesystem::path& path) {
  const std::filesystem::path ending = path.extension();
  return ending == ".safetensors" || ending == ".npz" || ending == ".npy";
}

/// A file that is open for reading: of the one kind or of the other.
struct TensorFile {
  explicit TensorFile(const std::filesystem::path& path) {
    require(has_known_ending(path), Errc::invalid_argument, path.string(),
            "tensors are read from .safetensors, .npz or .npy",
            "save them in one of these formats");
    if (path.extension() == ".safetensors") {
      safetensors.emplace(path);
      return;
    }
    content = read_file(path, kMaxTensorFileBytes);
    const auto bytes = std::as_bytes(std::span(content));
    if (path.extension() == ".npz") {
      arrays = view_npz(path.string(), bytes);
    } else {
      arrays = {{"latents", path.string(), bytes}};
    }
  }

  std::optional<models::SafetensorsFile> safetensors;
  std::string content;
  std::vector<NpzMember> arrays;  ///< in the content
};

/// What NumPy and safetensors call the same type.
struct TypeNames {
  std::string_view numpy;
  std::string_view safetensors;
};
constexpr TypeNames kTypeNames[] = {
    {"|b1", "BOOL"}, {"|u1", "U8"},  {"|i1", "I8"},  {"<i2", "I16"},
    {"<u2", "U16"},  {"<f2", "F16"}, {"<i4", "I32"}, {"<u4", "U32"},
    {"<f4", "F32"},  {"<c8", "C64"}, {"<f8", "F64"}, {"<i8", "I64"},
    {"<u8", "U64"}};

/// The name in another format; one that only this format has stays.
std::string translated(std::string_view name, std::string_view TypeNames::*from,
                       std::string_view TypeNames::*to) {
  const auto* const found = std::ranges::find(kTypeNames, name, from);
  return std::string(found == std::end(kTypeNames) ? name : (*found).*to);
}

/// Of whole numbers and halves, tensors of the job have i64 and f32.
Tensor read_entry(const models::SafetensorsFile& file,
                  const models::SafetensorsEntry& entry) {
  if (models::is_float(entry.dtype)) {
    return file.read(entry, DType::f32);
  }
  const std::vector<std::byte> bytes = file.stored_bytes(entry);
  return tensor_of(file.path().string() + ": tensor " + in_quotes(entry.name),
                   {translated(to_string(entry.dtype), &TypeNames::safetensors,
                               &TypeNames::numpy),
                    entry.shape, bytes});
}

[[noreturn]] void fail_non_finite(const std::filesystem::path& path,
                                  const std::string& name) {
  throw Error(Errc::invalid_argument, path.string(),
              "tensor " + in_quotes(name) +
                  ": got NaN or infinity, expected finite numbers",
              "give a file whose numbers are all finite");
}

std::string names_of(std::span<const NamedTensor> tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& item : tensors) {
    names.push_back(in_quotes(item.name));
  }
  constexpr std::size_t kShown = 5;
  return config::join_names(names, kShown);
}

}  // namespace

void check_tensor_path(const std::string& place,
                       const std::filesystem::path& path) {
  require(has_known_ending(path), Errc::invalid_argument, place,
          "tensors are written as .safetensors, .npz or .npy: got " +
              in_quotes(path.string()),
          "change the file's ending");
  check_writable(path);
}

void write_tensors(const std::filesystem::path& path,
                   std::span<const NamedTensor> tensors, const FileRule& rule) {
  if (path.extension() == ".npz") {
    write_file(path, encode_npz(tensors), rule);
  } else if (path.extension() == ".npy") {
    require(tensors.size() == 1, Errc::invalid_argument, path.string(),
            "a .npy file holds one array", "write .npz or .safetensors");
    write_file(path, encode_npy(tensors.front().tensor), rule);
  } else {
    models::write_safetensors(path, tensors, {}, rule);
  }
}

std::vector<StoredTensor> read_stored(const std::filesystem::path& path,
                                      bool with_bytes) {
  const TensorFile file(path);
  std::vector<StoredTensor> tensors;
  if (file.safetensors) {
    for (const models::SafetensorsEntry& entry :
         file.safetensors->header().entries) {
      tensors.push_back({std::string(entry.name),
                         std::string(to_string(entry.dtype)), entry.shape,
                         entry.end - entry.begin,
                         with_bytes ? file.safetensors->stored_bytes(entry)
                                    : std::vector<std::byte>()});
    }
  }
  for (const NpzMember& array : file.arrays) {
    const NpyView view = view_npy(array.place, array.file);
    StoredTensor& tensor = tensors.emplace_back();
    tensor = {
        array.name,
        translated(view.descr, &TypeNames::numpy, &TypeNames::safetensors),
        view.shape,
        view.data.size(),
        {}};
    if (with_bytes) {
      tensor.bytes = row_major(view);
    }
  }
  std::ranges::sort(tensors, {}, &StoredTensor::name);
  return tensors;
}

std::vector<NamedTensor> read_tensors(const std::filesystem::path& path) {
  const TensorFile file(path);
  std::vector<NamedTensor> tensors;
  for (const NpzMember& array : file.arrays) {
    tensors.push_back({array.name, decode_npy(array.place, array.file)});
  }
  if (!file.safetensors) {
    return tensors;
  }
  for (const models::SafetensorsEntry& entry :
       file.safetensors->header().entries) {
    try {
      tensors.push_back(
          {std::string(entry.name), read_entry(*file.safetensors, entry)});
    } catch (const Error& error) {
      if (error.code() == Errc::non_finite) {  // it speaks of weights
        fail_non_finite(path, std::string(entry.name));
      }
      throw;
    }
  }
  return tensors;
}

namespace {

/// The tensor of that name, or the only one, as f32 [n, …] of rows; one row
/// counts as n = 1.
Tensor read_rows(const std::filesystem::path& path, const char* name,
                 const Shape& row, const char* hint) {
  const std::vector<NamedTensor> tensors = read_tensors(path);
  auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found == tensors.end() && tensors.size() == 1) {
    found = tensors.begin();
  }
  require(found != tensors.end(), Errc::invalid_argument, path.string(),
          fmt::format(
              "no tensor named '{}': got {}", name,
              tensors.empty() ? std::string("no tensor") : names_of(tensors)),
          fmt::format("name the one that is meant {}, or leave it alone in the "
                      "file",
                      name));
  const Tensor& rows = found->tensor;
  require(
      rows.dtype() == DType::f32, Errc::unsupported, path.string(),
      fmt::format("{} must be float32: got {}", name, to_string(rows.dtype())),
      "convert it to float32");
  const Shape& shape = rows.shape();
  const bool is_one = shape == row;
  const Shape wanted =
      with_rows(is_one || shape.rank() == 0 ? 1 : shape[0], row);
  require(is_one || shape == wanted, Errc::shape_mismatch, path.string(),
          fmt::format("{} of another shape: got {}, expected n times {}", name,
                      to_string(shape), to_string(row)),
          hint);
  if (!std::ranges::all_of(rows.span<float>(),
                           [](float x) { return std::isfinite(x); })) {
    fail_non_finite(path, found->name);
  }
  return rows.reshape(wanted);
}

}  // namespace

Tensor read_latents(const std::filesystem::path& path,
                    const Shape& latent_shape) {
  return read_rows(path, "latents", latent_shape,
                   "give latents made for this model and size");
}

Tensor read_trajectories(const std::filesystem::path& path,
                         const Shape& trajectory_shape) {
  return read_rows(path, "trajectory", trajectory_shape,
                   "give one that --save trajectory=FILE has made with this "
                   "model, size, sampler and number of steps");
}

}  // namespace troupe::actors
