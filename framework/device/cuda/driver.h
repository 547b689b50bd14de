// The driver's virtual memory, without a link to the driver: a program built with CUDA also starts where there is none.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace hexad::device::cuda {

/// Functions of libcuda, asked from the runtime. Throws Error(resource) naming the function that the driver lacks.
class Driver {
 public:
  explicit Driver(int ordinal);

  /// Pages are this large, or a multiple of it.
  int64_t page() const { return page_; }
  /// A range of addresses without memory.
  CUdeviceptr reserve(int64_t bytes) const;
  void give_back_addresses(CUdeviceptr begin, int64_t bytes) const noexcept;

  using Page = CUmemGenericAllocationHandle;
  /// Memory of the card at `where`, for kernels and copies. False: the card has no more.
  bool map(CUdeviceptr where, int64_t bytes, Page& page) const;
  /// Unmaps memory that nothing uses any more.
  void unmap(CUdeviceptr where, int64_t bytes, Page page) const;
  /// The same when a program ends: ignores errors.
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
