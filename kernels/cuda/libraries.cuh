#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>

#include <memory>

namespace troupe::kernels::cuda {

/// The functions of cuBLASLt that Troupe calls. They are loaded when a GPU is
/// first used: so a run on the CPU does not load half a gigabyte of library,
/// and does not need the library at all.
struct BlasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) matrix_layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) matrix_layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) matrix_layout_set_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config_get_attribute;
};

/// The functions of cuDNN that Troupe calls: its backend graph interface.
struct Dnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error_string;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// The functions of the driver that its runtime lacks; null in an old driver.
struct Driver {
  decltype(&cuStreamWriteValue32) write_value;
  decltype(&cuStreamWaitValue32) wait_value;
};

/// The libraries. They stay loaded while `handles` lives.
struct Libraries {
  BlasLt blas;
  Dnn dnn;
  Driver driver;
  std::shared_ptr<void> handles;
};

/// Errors: Errc::unsupported naming the library that is missing and where it
/// was looked for.
[[nodiscard]] Libraries load_libraries();

}  // namespace troupe::kernels::cuda
