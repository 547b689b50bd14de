#include "tests/support/cuda_double/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "tests/support/cuda_double/host_waits.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/stream.h"

namespace hexad::cuda_double {
namespace {

constexpr int max_devices = 64;
thread_local int chosen = -1;  // -1: no device was chosen
thread_local cudaError_t last_error = cudaSuccess;
std::array<std::atomic<bool>, max_devices> broken;
constexpr int multiprocessors_of_h100 = 132;
std::atomic<int> multiprocessors = multiprocessors_of_h100;
constexpr size_t shared_memory_of_h100 = size_t{227} << 10;
std::atomic<size_t> shared_memory = shared_memory_of_h100;

// Counts calls of threads that have not chosen a device, and reports the count at the end of the process. This report
// is necessary, because destructors ignore the errors of their calls.
struct CallsWithoutDevice {
  std::atomic<int64_t> count = 0;
  ~CallsWithoutDevice() {
    if (count == 0) return;
    std::fprintf(stderr, "CUDA double: threads without a device made %lld calls\n", static_cast<long long>(count));
    std::fflush(nullptr);
    std::_Exit(1);
  }
};
CallsWithoutDevice without_device;

int connections_from_environment() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return text ? std::clamp(std::atoi(text), 1, 32) : 8;
}

}  // namespace

Multiprocessors::Multiprocessors(int number) { multiprocessors = number; }
Multiprocessors::~Multiprocessors() { multiprocessors = multiprocessors_of_h100; }

SharedMemoryLimit::SharedMemoryLimit(size_t bytes) { shared_memory = bytes; }
SharedMemoryLimit::~SharedMemoryLimit() { shared_memory = shared_memory_of_h100; }
size_t shared_memory_limit() { return shared_memory; }

int device_count() {
  static const int count = [] {
    const char* text = std::getenv("HEXAD_CUDA_DOUBLE_DEVICES");
    const int wanted = text ? std::atoi(text) : 8;
    return wanted < 0 ? 0 : wanted > max_devices ? max_devices : wanted;
  }();
  return count;
}

int current_device() { return std::max(chosen, 0); }

cudaError_t require_device(const char* call) {
  if (chosen >= 0) return cudaSuccess;
  ++without_device.count;
  std::fprintf(stderr, "CUDA double: %s was called by a thread that has not chosen a device (cudaSetDevice)\n", call);
  return set_last_error(cudaErrorDeviceUninitialized);
}

int64_t take_calls_without_device() { return without_device.count.exchange(0); }

const Settings& settings() {
  static const Settings read = [] {
    const char* loading = std::getenv("CUDA_MODULE_LOADING");
    return Settings{.connections = connections_from_environment(),
                    .loads_early = loading && std::string_view(loading) == "EAGER"};
  }();
  return read;
}

cudaError_t set_last_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void break_device(int device, const std::string& why) {
  std::fprintf(stderr, "CUDA double: device %d: %s\n", device, why.c_str());
  broken[device] = true;
}

cudaError_t state_of(int device) { return broken[device] ? set_last_error(cudaErrorLaunchFailure) : cudaSuccess; }

void mend_devices() {
  for (auto& b : broken) b = false;
}

}  // namespace hexad::cuda_double

using namespace hexad::cuda_double;

extern "C" {

cudaError_t cudaSetDevice(int device) {
  settings();
  if (device < 0 || device >= device_count()) return set_last_error(cudaErrorInvalidDevice);
  chosen = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  settings();
  *count = device_count();
  return *count ? cudaSuccess : set_last_error(cudaErrorNoDevice);
}

// Fills in the properties of an H100 that callers read.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= device_count()) return set_last_error(cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof p->name, "double of an H100");
  p->uuid.bytes[0] = static_cast<char>(device + 1);
  p->totalGlobalMem = size_t{80} << 30;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = shared_memory_limit();
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->multiProcessorCount = multiprocessors;
  p->major = 9;
  p->minor = 0;
  p->l2CacheSize = 50 << 20;
  p->pciBusID = device + 1;
  p->unifiedAddressing = 1;
  p->concurrentKernels = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t e = cudaGetDeviceProperties(&p, device); e != cudaSuccess) return e;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      return *value = p.major, cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      return *value = p.minor, cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      return *value = p.multiProcessorCount, cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return *value = static_cast<int>(p.sharedMemPerBlockOptin), cudaSuccess;
    default:
      return set_last_error(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= device_count()) return set_last_error(cudaErrorInvalidDevice);
  std::snprintf(text, length, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t e = require_device(__func__); e != cudaSuccess) return e;
  count_host_wait(__func__);
  return synchronize_device(current_device());
}

cudaError_t cudaDriverGetVersion(int* version) {
  settings();
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorDeviceUninitialized:
      return "cudaErrorDeviceUninitialized";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    default:
      return "cudaError";
  }
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return require_device(__func__); }

}  // extern "C"
