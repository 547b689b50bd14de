#include "tests/support/cuda_double/virtual_memory.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "tests/support/cuda_double/device.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl.h"

using namespace hexad::cuda_double;

namespace {

constexpr size_t granularity = size_t{2} << 20;

// Pages of a handle: a part of one unnamed file.
struct Pages {
  off_t begin;
  size_t bytes;
  int device;
};

int file() {
  static const int all = [] {
    const int made = memfd_create("cuda double", MFD_CLOEXEC);
    constexpr off_t addresses = off_t{1} << 46;  // reserves only addresses: pages take memory once they are written
    return made >= 0 && ftruncate(made, addresses) == 0 ? made : -1;
  }();
  return all;
}

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::map<CUmemGenericAllocationHandle, Pages>& all_pages() {
  static std::map<CUmemGenericAllocationHandle, Pages> pages;
  return pages;
}

// Returns the addresses where whole handles are mapped, and the sizes of these handles in bytes.
std::map<CUdeviceptr, size_t>& mapped() {
  static std::map<CUdeviceptr, size_t> pieces;
  return pieces;
}

void* address(CUdeviceptr p) { return reinterpret_cast<void*>(p); }
bool whole(size_t bytes) { return bytes > 0 && bytes % granularity == 0; }

CUresult get_device(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

std::atomic<int64_t> reserved = 0;

// The function whose next call fails, and its error. The name is empty if no call is to fail.
struct Failing {
  std::string function;
  CUresult error = CUDA_SUCCESS;
};
Failing& failing() {
  static Failing next;
  return next;
}
// Returns the error with which this call of `function` must fail, or CUDA_SUCCESS. The mutex must be held.
CUresult failure_of(std::string_view function) {
  if (failing().function != function) return CUDA_SUCCESS;
  failing().function.clear();
  return failing().error;
}

// Attributes of pages that the devices lack.
std::set<CUdevice_attribute>& lacking() {
  static std::set<CUdevice_attribute> attributes;
  return attributes;
}

bool has(CUdevice_attribute attribute) {
  std::lock_guard lock(mutex());
  return !lacking().contains(attribute);
}

CUresult get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
      return *value = has(attribute), CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Returns CUDA_ERROR_INVALID_CONTEXT if this thread has chosen no device (require_device()).
CUresult context_for(const char* function) {
  return require_device(function) == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

// Returns CUDA_ERROR_NOT_SUPPORTED if the devices lack an attribute that pages with the properties `prop` need.
CUresult possible(const CUmemAllocationProp& prop) {
  const bool exports = prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  const bool to_networks = prop.allocFlags.gpuDirectRDMACapable != 0;
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) return CUDA_ERROR_NOT_SUPPORTED;
  if (exports && !has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) return CUDA_ERROR_NOT_SUPPORTED;
  if (to_networks && !has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)) return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult get_granularity(size_t* size, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags) {
  *size = granularity;
  return possible(*prop);
}

CUresult reserve(CUdeviceptr* p, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  if (const CUresult r = context_for("cuMemAddressReserve"); r != CUDA_SUCCESS) return r;
  if (!whole(bytes)) return CUDA_ERROR_INVALID_VALUE;
  // The range is larger than needed, so that it contains a multiple of the granularity. Reserved addresses take no
  // memory.
  void* range = mmap(nullptr, bytes + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUdeviceptr begin = reinterpret_cast<CUdeviceptr>(range);
  *p = (begin + granularity - 1) / granularity * granularity;
  if (*p > begin) munmap(range, *p - begin);
  if (const size_t rest = begin + granularity - *p) munmap(address(*p + bytes), rest);
  ++reserved;
  return CUDA_SUCCESS;
}

CUresult release_addresses(CUdeviceptr p, size_t bytes) {
  if (const CUresult r = context_for("cuMemAddressFree"); r != CUDA_SUCCESS) return r;
  if (munmap(address(p), bytes) != 0) return CUDA_ERROR_INVALID_VALUE;
  --reserved;
  return CUDA_SUCCESS;
}

CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                unsigned long long) {
  if (const CUresult r = context_for("cuMemCreate"); r != CUDA_SUCCESS) return r;
  if (!whole(bytes) || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = possible(*prop); r != CUDA_SUCCESS) return r;
  if (!charge(prop->location.id, static_cast<int64_t>(bytes))) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(mutex());
  static CUmemGenericAllocationHandle next = 0;
  static off_t end = 0;
  all_pages()[++next] = {end, bytes, prop->location.id};
  end += static_cast<off_t>(bytes);
  *handle = next;
  return CUDA_SUCCESS;
}

CUresult map(CUdeviceptr p, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
  if (const CUresult r = context_for("cuMemMap"); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(mutex());
  if (const CUresult failure = failure_of("cuMemMap"); failure != CUDA_SUCCESS) return failure;
  const auto it = all_pages().find(handle);
  if (it == all_pages().end() || offset != 0 || bytes != it->second.bytes || p % granularity != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (mmap(address(p), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file(), it->second.begin) == MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  mapped()[p] = bytes;
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr p, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (const CUresult r = context_for("cuMemSetAccess"); r != CUDA_SUCCESS) return r;
  {
    std::lock_guard lock(mutex());
    if (const CUresult failure = failure_of("cuMemSetAccess"); failure != CUDA_SUCCESS) return failure;
  }
  if (count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  if (mprotect(address(p), bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t page = 0; page < bytes; page += granularity)
    add_range(address(p + page), granularity, Memory::device, access->location.id);
  return CUDA_SUCCESS;
}

// Unmaps without waiting, like a card's driver. Work that still uses the addresses would fault.
CUresult unmap(CUdeviceptr p, size_t bytes) {
  if (const CUresult r = context_for("cuMemUnmap"); r != CUDA_SUCCESS) return r;
  nccl_pages_go(address(p), static_cast<int64_t>(bytes));
  {
    std::lock_guard lock(mutex());
    mapped().erase(p);
  }
  for (size_t page = 0; page < bytes; page += granularity) remove_range(address(p + page));
  void* there = mmap(address(p), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return there == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle handle) {
  if (const CUresult r = context_for("cuMemRelease"); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(mutex());
  const auto it = all_pages().find(handle);
  if (it == all_pages().end()) return CUDA_ERROR_INVALID_VALUE;
  const Pages& pages = it->second;
  fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, pages.begin, static_cast<off_t>(pages.bytes));
  charge(pages.device, -static_cast<int64_t>(pages.bytes));
  all_pages().erase(it);
  return CUDA_SUCCESS;
}

}  // namespace

void hexad::cuda_double::set_attribute(CUdevice_attribute attribute, bool has) {
  std::lock_guard lock(mutex());
  if (has)
    lacking().erase(attribute);
  else
    lacking().insert(attribute);
}

void hexad::cuda_double::fail_next(std::string_view function, CUresult error) {
  std::lock_guard lock(mutex());
  failing() = {std::string(function), error};
}

int64_t hexad::cuda_double::reservations() { return reserved; }

bool hexad::cuda_double::is_one_piece(const void* begin, int64_t bytes) {
  std::lock_guard lock(mutex());
  const auto it = mapped().find(reinterpret_cast<CUdeviceptr>(begin));
  return it != mapped().end() && static_cast<int64_t>(it->second) == bytes;
}

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                        unsigned long long, cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string_view, void*> functions{
      {"cuDeviceGet", reinterpret_cast<void*>(get_device)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(get_attribute)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(get_granularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(release_addresses)},
      {"cuMemCreate", reinterpret_cast<void*>(create)},
      {"cuMemRelease", reinterpret_cast<void*>(release)},
      {"cuMemMap", reinterpret_cast<void*>(map)},
      {"cuMemUnmap", reinterpret_cast<void*>(unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(set_access)}};
  const auto it = functions.find(symbol);
  *function = it == functions.end() ? nullptr : it->second;
  if (result) *result = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
