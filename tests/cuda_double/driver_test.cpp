// Cards and drivers that lack a property of mapped pages.
#include "framework/device/cuda/driver.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/device/context.h"
#include "framework/device/cuda/whole_blocks.h"
#include "tests/support/cuda_double/virtual_memory.h"

namespace hexad::device::cuda {
namespace {

// Removes an attribute from the cards during its lifetime.
class Without {
 public:
  explicit Without(CUdevice_attribute attribute) : attribute_(attribute) {
    cuda_double::set_attribute(attribute_, false);
  }
  ~Without() { cuda_double::set_attribute(attribute_, true); }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;

 private:
  const CUdevice_attribute attribute_;
};

TEST(CudaDriver, CardWithoutVirtualMemoryIsRefusedByName) {
  const Without missing(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  try {
    const DeviceContext context({.kind = DeviceKind::cuda});
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::resource);
    EXPECT_STREQ(e.what(),
                 "device: cuda was requested, but the GPU or its driver has no virtual memory management (a virtual "
                 "GPU may need another profile; WSL may need a newer driver); use device: cpu");
  }
}

void expect_pages() {
  const Driver driver(0);
  WholeBlocks blocks(driver);
  void* const block = blocks.take(int64_t{2} << 20);
  EXPECT_NE(block, nullptr);
  blocks.give(block);
}

TEST(CudaDriver, MakesPlainPagesIfHandlesCannotBeExported) {
  const Without missing(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  expect_pages();
}

TEST(CudaDriver, MakesPagesIfNetworkCardsCannotReachThem) {
  const Without missing(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  expect_pages();
}

}  // namespace
}  // namespace hexad::device::cuda
