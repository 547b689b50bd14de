// The driver's virtual memory, without linking the driver: a program built with CUDA also starts on machines without a
// driver.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace hexad::device::cuda {

/// Functions of libcuda, obtained through the runtime. Other processes can open the pages if the card allows it, as
/// buffers registered with NCCL require. Throws Error(resource) naming the function that the driver lacks, or if the
/// card or its driver has no virtual memory management.
class Driver {
 public:
  explicit Driver(int ordinal);

  /// Returns the granularity of pages: sizes are multiples of it.
  int64_t page() const { return page_; }
  /// Reserves a range of addresses without memory.
  CUdeviceptr reserve(int64_t bytes) const;
  void give_back_addresses(CUdeviceptr begin, int64_t bytes) const noexcept;

  using Page = CUmemGenericAllocationHandle;
  /// Maps memory of the card at `where`, for kernels and copies. Returns false if the card has no more memory.
  bool map(CUdeviceptr where, int64_t bytes, Page& page) const;
  /// Unmaps memory that is no longer in use.
  void unmap(CUdeviceptr where, int64_t bytes, Page page) const;
  /// Like unmap(), for the end of a program: ignores errors.
  void drop(CUdeviceptr where, int64_t bytes, Page page) const noexcept;

 private:
  CUmemAllocationProp memory_{};
  CUmemAccessDesc access_{};
  int64_t page_ = 0;
  decltype(&cuMemAddressReserve) address_reserve_;
  decltype(&cuMemAddressFree) address_free_;
  decltype(&cuMemCreate) create_;
  decltype(&cuMemRelease) release_;
  decltype(&cuMemMap) map_;
  decltype(&cuMemUnmap) unmap_;
  decltype(&cuMemSetAccess) set_access_;
};

}  // namespace hexad::device::cuda
