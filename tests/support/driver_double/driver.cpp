// Test double of libcuda.so.1 on a machine without a card. cuDNN needs a driver to compile plans. With this double,
// cuDNN compiles plans for cards that do not exist. The functions that load libraries from memory, unload them, get
// their kernels and set kernel attributes pretend to succeed. All other functions return "no device", except for the
// functions that return texts of errors. Unused trailing arguments are not declared.

namespace {

constexpr int success = 0, no_device = 100;
int something = 0;

int loaded(void** out) {
  *out = &something;
  return success;
}
int text(int, const char** out) {
  *out = "there is no device behind the driver's double";
  return success;
}

}  // namespace

extern "C" {

int cuLibraryLoadData(void** library) { return loaded(library); }
int cuLibraryGetKernel(void** kernel) { return loaded(kernel); }
int cuLibraryUnload() { return success; }
int cuKernelSetAttribute() { return success; }
int cuGetErrorName(int error, const char** out) { return text(error, out); }
int cuGetErrorString(int error, const char** out) { return text(error, out); }

int cuInit() { return no_device; }
int cuDriverGetVersion() { return no_device; }
int cuDeviceGetCount() { return no_device; }
int cuDeviceGet() { return no_device; }
int cuCtxGetCurrent() { return no_device; }
int cuCtxGetLimit() { return no_device; }
int cuCtxPopCurrent() { return no_device; }
int cuCtxPushCurrent() { return no_device; }
int cuStreamGetCtx() { return no_device; }
int cuLinkCreate() { return no_device; }
int cuLinkAddData() { return no_device; }
int cuLinkComplete() { return no_device; }
int cuLinkDestroy() { return no_device; }
int cuLibraryLoadFromFile() { return no_device; }
int cuKernelGetAttribute() { return no_device; }
int cuLaunchKernel() { return no_device; }
int cuLaunchKernelEx() { return no_device; }
int cuLaunchCooperativeKernel() { return no_device; }
int cuOccupancyMaxPotentialClusterSize() { return no_device; }

}  // extern "C"
