#include "actors/cli/latents_file.h"

#include <algorithm>
#include <cmath>

#include "actors/artefacts/npz.h"
#include "config/suggest.h"
#include "kernels/core/atomic_file.h"
#include "kernels/core/error.h"
#include "kernels/core/text.h"
#include "models/safetensors.h"

namespace troupe::actors {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

[[noreturn]] void fail_non_finite(const std::filesystem::path& path,
                                  const std::string& name) {
  throw Error(Errc::invalid_argument, path.string(),
              "tensor " + in_quotes(name) +
                  ": got NaN or infinity, expected finite numbers",
              "give a file whose numbers are all finite");
}

std::vector<NamedTensor> read_safetensors(const std::filesystem::path& path) {
  const models::SafetensorsFile file(path);
  std::vector<NamedTensor> tensors;
  for (const models::SafetensorsEntry& entry : file.header().entries) {
    try {
      tensors.push_back({std::string(entry.name), file.read(entry)});
    } catch (const Error& error) {
      if (error.code() == Errc::non_finite) {  // it speaks of weights
        fail_non_finite(path, std::string(entry.name));
      }
      throw;
    }
  }
  return tensors;
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
  const std::string ending = path.extension().string();
  if (ending != ".safetensors" && ending != ".npz" && ending != ".npy") {
    throw Error(Errc::invalid_argument, place,
                "tensors are written as .safetensors, .npz or .npy: got " +
                    in_quotes(path.string()),
                "change the file's ending");
  }
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

std::vector<NamedTensor> read_tensors(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".safetensors") {
    return read_safetensors(path);
  }
  if (ending != ".npz" && ending != ".npy") {
    throw Error(Errc::invalid_argument, path.string(),
                "tensors are read from .safetensors, .npz or .npy",
                "save them in one of these formats");
  }
  const std::string content = read_file(path, kMaxTensorFileBytes);
  if (ending == ".npz") {
    return decode_npz(path.string(), bytes_of(content));
  }
  return {{"latents", decode_npy(path.string(), bytes_of(content))}};
}

Tensor read_latents(const std::filesystem::path& path,
                    const Shape& latent_shape) {
  const std::vector<NamedTensor> tensors = read_tensors(path);
  auto found = std::ranges::find(tensors, "latents", &NamedTensor::name);
  if (found == tensors.end() && tensors.size() == 1) {
    found = tensors.begin();
  }
  require(found != tensors.end(), Errc::invalid_argument, path.string(),
          "no tensor named 'latents': got " +
              (tensors.empty() ? std::string("no tensor") : names_of(tensors)),
          "name the one that is meant latents, or leave it alone in the file");
  const Tensor& latents = found->tensor;
  require(
      latents.dtype() == DType::f32, Errc::unsupported, path.string(),
      "latents must be float32: got " + std::string(to_string(latents.dtype())),
      "convert them to float32");
  const Shape& shape = latents.shape();
  const bool is_one = shape == latent_shape;
  const Shape wanted =
      with_rows(is_one || shape.rank() == 0 ? 1 : shape[0], latent_shape);
  if (!is_one && shape != wanted) {
    throw Error(Errc::shape_mismatch, path.string(),
                "latents of another shape: got " + to_string(shape) +
                    ", expected n times " + to_string(latent_shape),
                "give latents made for this model and size");
  }
  if (!std::ranges::all_of(latents.span<float>(),
                           [](float x) { return std::isfinite(x); })) {
    fail_non_finite(path, found->name);
  }
  return latents.reshape(wanted);
}

}  // namespace troupe::actors
