// Access to the driver's virtual memory functions. The driver is not linked, because a program built with CUDA must
// also start on machines without a driver.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace hexad::device::cuda {

/// Functions of libcuda, obtained through the CUDA runtime. NCCL's registered buffers require that other processes can
/// open the mapped pages; the pages permit this if the card supports it. The constructor makes the card current in the
/// calling thread. It throws Error(resource) if the driver lacks a function, which the message names. It also throws
/// Error(resource) if the card or its driver has no virtual memory management. Members that are not noexcept throw
/// Error(resource) if the driver reports an error. Any thread may call the members. The card becomes current in a
/// thread that has no current card.
class Driver {
 public:
  explicit Driver(int ordinal);

  /// Returns the page size in bytes. Sizes and addresses of mappings must be multiples of the page size.
  int64_t page() const { return page_; }
  /// Reserves `bytes` bytes of addresses, without memory.
  CUdeviceptr reserve(int64_t bytes) const;
  void give_back_addresses(CUdeviceptr begin, int64_t bytes) const noexcept;

  using Page = CUmemGenericAllocationHandle;
  /// Maps `bytes` bytes of new card memory at `where`, accessible to kernels and copies. Sets `page` to the handle of
  /// this memory.
  /// Returns false if the card has no more memory for the pages or their mapping. If map() throws or returns false,
  /// nothing is mapped and the memory is freed.
  bool map(CUdeviceptr where, int64_t bytes, Page& page) const;
  /// Unmaps and frees memory. All queues must have finished using it.
  void unmap(CUdeviceptr where, int64_t bytes, Page page) const;
  /// Like unmap(), but ignores errors, because the process may be ending.
  void drop(CUdeviceptr where, int64_t bytes, Page page) const noexcept;

 private:
  void need_card() const noexcept;

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
