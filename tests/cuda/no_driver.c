/* A CUDA driver without a device, for test_dnn_plans: cuDNN makes plans for a
 * described GPU, compiles kernels and hands them to the driver. This one takes
 * them and can do nothing else; nothing here ever runs.
 *
 * The names are those that cuDNN 9.19 looks up when it makes plans. */

enum { kSuccess = 0, kNotSupported = 801, kDriverVersion = 13000 };

static char taken;

int cuInit(unsigned flags) {
  (void)flags;
  return kSuccess;
}
int cuDriverGetVersion(int *version) {
  *version = kDriverVersion;
  return kSuccess;
}
int cuDeviceGetCount(int *count) {
  *count = 0;
  return kSuccess;
}

#define TAKES(name)         \
  int name(void **object) { \
    *object = &taken;       \
    return kSuccess;        \
  }
TAKES(cuLibraryLoadData)
TAKES(cuLibraryGetKernel)

static int describe(int error, const char **text) {
  (void)error;
  *text = "there is no driver, see no_driver.c";
  return kSuccess;
}
int cuGetErrorName(int error, const char **text) {
  return describe(error, text);
}
int cuGetErrorString(int error, const char **text) {
  return describe(error, text);
}

/* nvrtc asks for one. */
int cuGetExportTable(const void **table, const void *id) {
  (void)id;
  *table = 0;
  return kNotSupported;
}

#define AGREES(name) \
  int name(void) { return kSuccess; }
AGREES(cuKernelSetAttribute)
AGREES(cuLibraryUnload)

#define REFUSES(name) \
  int name(void) { return kNotSupported; }
REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetDevice)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuDeviceGet)
REFUSES(cuDeviceGetAttribute)
REFUSES(cuDevicePrimaryCtxRelease)
REFUSES(cuDevicePrimaryCtxReset)
REFUSES(cuDevicePrimaryCtxRetain)
REFUSES(cuFuncGetAttribute)
REFUSES(cuFuncSetAttribute)
REFUSES(cuKernelGetAttribute)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuLinkAddData)
REFUSES(cuLinkAddData_v2)
REFUSES(cuLinkAddFile_v2)
REFUSES(cuLinkComplete)
REFUSES(cuLinkCreate)
REFUSES(cuLinkCreate_v2)
REFUSES(cuLinkDestroy)
REFUSES(cuMemcpyDtoH_v2)
REFUSES(cuModuleGetFunction)
REFUSES(cuModuleGetGlobal_v2)
REFUSES(cuModuleLoadData)
REFUSES(cuModuleLoadDataEx)
REFUSES(cuModuleLoadFatBinary)
REFUSES(cuModuleUnload)
REFUSES(cuOccupancyMaxActiveBlocksPerMultiprocessor)
REFUSES(cuOccupancyMaxPotentialClusterSize)
REFUSES(cuStreamGetCtx)
REFUSES(cuStreamSynchronize)
REFUSES(cuTensorMapEncodeTiled)
