#include "kernels/cuda/libraries.cuh"

#include <dlfcn.h>

#include <array>
#include <initializer_list>
#include <string>

#include "kernels/core/error.h"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kHint =
    "install cuBLAS 12 or 13, cuDNN 9 and NVRTC and put them on the loader's "
    "path (LD_LIBRARY_PATH), or run with --device cpu";

struct CloseLibrary {
  void operator()(void* handle) const { dlclose(handle); }
};
using Library = std::shared_ptr<void>;

Library open_first(const char* what, std::initializer_list<const char*> names) {
  std::string reasons;
  for (const char* name : names) {
    // They stay once loaded: each has a CUDA runtime of its own inside, whose
    // kernels the driver still knows, and loading takes a second.
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) {
      return {handle, CloseLibrary{}};
    }
    const char* reason = dlerror();
    reasons += reasons.empty() ? ": " : "; ";
    reasons += reason != nullptr ? reason : "no reason given";
  }
  throw Error(Errc::unsupported, "cuda",
              std::string(what) + " cannot be loaded" + reasons, kHint);
}

template <typename Function>
void find(const Library& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library.get(), name));
  if (function == nullptr) {
    throw Error(Errc::unsupported, "cuda",
                std::string("a library is too old: it has no ") + name, kHint);
  }
}

BlasLt find_blas(const Library& library) {
  BlasLt blas{};
  find(library, "cublasLtCreate", blas.create);
  find(library, "cublasLtDestroy", blas.destroy);
  find(library, "cublasLtGetStatusString", blas.status_string);
  find(library, "cublasLtMatmul", blas.matmul);
  find(library, "cublasLtMatmulDescCreate", blas.matmul_desc_create);
  find(library, "cublasLtMatmulDescDestroy", blas.matmul_desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute",
       blas.matmul_desc_set_attribute);
  find(library, "cublasLtMatrixLayoutCreate", blas.matrix_layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", blas.matrix_layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute",
       blas.matrix_layout_set_attribute);
  find(library, "cublasLtMatmulPreferenceCreate", blas.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", blas.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute",
       blas.preference_set_attribute);
  find(library, "cublasLtMatmulAlgoGetHeuristic", blas.algo_get_heuristic);
  find(library, "cublasLtMatmulAlgoCheck", blas.algo_check);
  find(library, "cublasLtMatmulAlgoConfigGetAttribute",
       blas.algo_config_get_attribute);
  return blas;
}

Dnn find_dnn(const Library& library) {
  Dnn dnn{};
  find(library, "cudnnCreate", dnn.create);
  find(library, "cudnnDestroy", dnn.destroy);
  find(library, "cudnnSetStream", dnn.set_stream);
  find(library, "cudnnGetVersion", dnn.version);
  find(library, "cudnnGetErrorString", dnn.error_string);
  find(library, "cudnnGetLastErrorString", dnn.last_error_string);
  find(library, "cudnnBackendCreateDescriptor", dnn.create_descriptor);
  find(library, "cudnnBackendDestroyDescriptor", dnn.destroy_descriptor);
  find(library, "cudnnBackendSetAttribute", dnn.set_attribute);
  find(library, "cudnnBackendGetAttribute", dnn.get_attribute);
  find(library, "cudnnBackendFinalize", dnn.finalize);
  find(library, "cudnnBackendExecute", dnn.execute);
  return dnn;
}

/// The driver is there: the runtime has loaded it.
Driver find_driver() {
  const Library library = open_first("the driver", {"libcuda.so.1"});
  // cuda.h gives their second version this name.
  return {reinterpret_cast<decltype(Driver::write_value)>(
              dlsym(library.get(), "cuStreamWriteValue32_v2")),
          reinterpret_cast<decltype(Driver::wait_value)>(
              dlsym(library.get(), "cuStreamWaitValue32_v2"))};
}

}  // namespace

Libraries load_libraries() {
  const Library blas =
      open_first("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"});
  const Library dnn = open_first("cuDNN", {"libcudnn.so.9"});
  return {find_blas(blas), find_dnn(dnn), find_driver(),
          std::make_shared<std::array<Library, 2>>(
              std::array<Library, 2>{blas, dnn})};
}

}  // namespace troupe::kernels::cuda
