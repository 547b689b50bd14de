#include "framework/device/cuda/driver.h"

#include <cuda_runtime_api.h>

#include "framework/base/error.h"
#include "framework/device/cuda/choose_card.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device::cuda {
namespace {

template <class F>
void load(F& function, const char* name) {
  constexpr unsigned version = 12000;  // version of the driver's interface; every driver that can run this program
                                       // supports it
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
        "querying a function of the driver");
  if (!found || result != cudaDriverEntryPointSuccess)
    base::fail(base::ExitCode::resource, "[cuda] the NVIDIA driver has no ", name, "; install a newer driver");
  function = reinterpret_cast<F>(found);
}

void require_success(CUresult result, std::string_view what) {
  if (result != CUDA_SUCCESS)
    base::fail(base::ExitCode::resource, "[cuda] ", what, ": driver error ", static_cast<int>(result),
               " (a CUresult of cuda.h)");
}

// Returns false if the driver had no memory for the call. Throws Error(resource) for every other error.
bool had_memory(CUresult result, std::string_view what) {
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  require_success(result, what);
  return true;
}

}  // namespace

Driver::Driver(int ordinal) {
  load(address_reserve_, "cuMemAddressReserve");
  load(address_free_, "cuMemAddressFree");
  load(create_, "cuMemCreate");
  load(release_, "cuMemRelease");
  load(map_, "cuMemMap");
  load(unmap_, "cuMemUnmap");
  load(set_access_, "cuMemSetAccess");
  decltype(&cuMemGetAllocationGranularity) granularity{};
  load(granularity, "cuMemGetAllocationGranularity");
  decltype(&cuDeviceGet) device_at{};
  load(device_at, "cuDeviceGet");
  decltype(&cuDeviceGetAttribute) attribute{};
  load(attribute, "cuDeviceGetAttribute");

  memory_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
  access_.location = memory_.location;
  access_.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  use_card(ordinal);
  CUdevice card = 0;
  require_success(device_at(&card, ordinal), "querying the card");
  const auto has = [&](CUdevice_attribute which, std::string_view what) {
    int value = 0;
    require_success(attribute(&value, which, card), what);
    return value != 0;
  };
  if (!has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "querying virtual memory management"))
    refuse_card(
        "the GPU or its driver has no virtual memory management (a virtual GPU may need another profile; WSL may need "
        "a newer driver)");
  memory_.requestedHandleTypes =
      has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "querying the sharing of pages")
          ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
          : CU_MEM_HANDLE_TYPE_NONE;
  memory_.allocFlags.gpuDirectRDMACapable =
      has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, "querying the access of network cards to pages");
  size_t page = 0;
  require_success(granularity(&page, &memory_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "querying the size of pages");
  page_ = static_cast<int64_t>(page);
}

// The driver's functions for memory need a current card in the calling thread, which may be any thread.
void Driver::need_card() const noexcept { ensure_card(memory_.location.id); }

CUdeviceptr Driver::reserve(int64_t bytes) const {
  need_card();
  CUdeviceptr begin = 0;
  require_success(address_reserve_(&begin, bytes, 0, 0, 0), "reserving addresses");
  return begin;
}

void Driver::give_back_addresses(CUdeviceptr begin, int64_t bytes) const noexcept {
  need_card();
  static_cast<void>(address_free_(begin, bytes));
}

bool Driver::map(CUdeviceptr where, int64_t bytes, Page& page) const {
  need_card();
  const size_t size = bytes;
  if (!had_memory(create_(&page, size, &memory_, 0), "allocating pages")) return false;
  // A mapping also needs memory for its tables, so the next two calls can run out of memory, too.
  if (const CUresult mapped = map_(where, size, 0, page, 0); mapped != CUDA_SUCCESS) {
    static_cast<void>(release_(page));
    return had_memory(mapped, "mapping pages");
  }
  if (const CUresult accessible = set_access_(where, size, &access_, 1); accessible != CUDA_SUCCESS) {
    drop(where, bytes, page);
    return had_memory(accessible, "setting the access rights of pages");
  }
  return true;
}

void Driver::unmap(CUdeviceptr where, int64_t bytes, Page page) const {
  need_card();
  require_success(unmap_(where, bytes), "unmapping pages");
  require_success(release_(page), "freeing pages");
}

void Driver::drop(CUdeviceptr where, int64_t bytes, Page page) const noexcept {
  need_card();
  static_cast<void>(unmap_(where, bytes));
  static_cast<void>(release_(page));
}

}  // namespace hexad::device::cuda
