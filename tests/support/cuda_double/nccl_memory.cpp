// NCCL's calls for memory, windows and registered buffers, implemented by the double.
#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl_side.h"
#include "tests/support/cuda_double/nccl_windows.h"

using namespace hexad::cuda_double;
using Lock = Clique::Lock;

extern "C" {

ncclResult_t ncclMemAlloc(void** begin, size_t bytes) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  return cudaMalloc(begin, bytes) == cudaSuccess
             ? ncclSuccess
             : nccl_refusal(ncclUnhandledCudaError, "Cuda failure 2 'out of memory'");
}

ncclResult_t ncclMemFree(void* begin) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  return cudaFree(begin) == cudaSuccess
             ? ncclSuccess
             : nccl_refusal(ncclInvalidArgument, "the memory was not allocated, or its device is broken");
}

// Registers a window. Like NCCL, waits until all ranks have registered their windows.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* begin, size_t bytes, ncclWindow_t* window, int) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  *window = nullptr;
  if (!reaches(begin, static_cast<int64_t>(bytes)))
    return nccl_refusal(ncclInvalidArgument, "the window is not memory that the device can access");
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
  const NcclSidePtr s = comm->side;
  if (device_at(begin) != s->device) return nccl_refusal(ncclInvalidArgument, "the window is of another device");
  auto& begins = s->clique->windows(s->windows++);
  begins[s->rank] = static_cast<const char*>(begin);
  nccl_changed();
  nccl_wait(lock, [&] { return s->gone || begins.size() == static_cast<size_t>(s->clique->ranks()); });
  if (s->gone) return nccl_refusal(ncclInternalError, "aborted while registering a window");
  *window = new ncclWindow_vidmem;
  if (nccl_registry().maps_windows && !s->clique->crosses_nodes())
    for (const auto& [rank, address] : begins) (*window)->begins.push_back(address);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  delete window;
  return ncclSuccess;
}

// Registers a buffer. Unlike NCCL, the double rejects a buffer that is not one piece of mapped memory. It also rejects
// a second registration of the same address.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* begin, size_t bytes, void** handle) {
  *handle = nullptr;
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  const auto size = static_cast<int64_t>(bytes);
  if (!is_one_piece(begin, size))
    return nccl_refusal(ncclInvalidArgument, "the buffer is not one piece of mapped memory");
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
  if (!nccl_registry().registers) return nccl_refusal(ncclSystemError, "the buffer cannot be registered");
  if (device_at(begin) != comm->side->device)
    return nccl_refusal(ncclInvalidArgument, "the buffer is of another device");
  if (!comm->side->registered.emplace(reinterpret_cast<uintptr_t>(begin), size).second)
    return nccl_refusal(ncclInvalidUsage, "the buffer is registered already");
  *handle = begin;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (const ncclResult_t r = nccl_has_device(__func__); r != ncclSuccess) return r;
  Lock lock(nccl_world().mutex);
  if (const ncclResult_t r = nccl_ready(comm); r != ncclSuccess) return r;
  if (comm->side->registered.erase(reinterpret_cast<uintptr_t>(handle)) == 0)
    return nccl_refusal(ncclInvalidUsage, "the handle is not of a registered buffer");
  return ncclSuccess;
}

}  // extern "C"
