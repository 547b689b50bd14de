// Cards and drivers without virtual memory management, exportable handles or RDMA to mapped pages, and drivers that
// fail to map pages.
#include "framework/device/cuda/driver.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "framework/base/error.h"
#include "framework/device/context.h"
#include "framework/device/cuda/choose_card.h"
#include "framework/device/cuda/whole_blocks.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/virtual_memory.h"

namespace hexad::device::cuda {
namespace {

// Removes an attribute from the cards for the lifetime of this object.
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

TEST(ChooseCard, LocalRankMustBeAWholeNumber) {
  for (const char* text : {"", "x", " 1", "1 ", "-1", "99999999999999999999"}) {
    setenv("HEXAD_LOCAL_RANK", text, 1);
    try {
      choose_card(0);
      ADD_FAILURE() << "'" << text << "' was accepted; expected an error";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage);
      EXPECT_EQ(e.what(), base::cat("HEXAD_LOCAL_RANK is '", text, "', expected a whole number of at least 0"));
    }
  }
  unsetenv("HEXAD_LOCAL_RANK");
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

std::string message_of_failing_map(const Driver& driver, CUdeviceptr where, const std::string& function) {
  cuda_double::fail_next(function);
  Driver::Page page{};
  try {
    driver.map(where, driver.page(), page);
    return "no error";
  } catch (const base::Error& e) {
    return e.what();
  }
}

TEST(CudaDriver, FailingMapLeavesNeitherPagesNorMappings) {
  const Driver driver(0);
  const CUdeviceptr where = driver.reserve(driver.page());
  const int64_t before = cuda_double::in_use(0);
  EXPECT_EQ(message_of_failing_map(driver, where, "cuMemMap"),
            "[cuda] mapping pages: driver error 999 (a CUresult of cuda.h)");
  EXPECT_EQ(cuda_double::in_use(0), before);
  EXPECT_EQ(message_of_failing_map(driver, where, "cuMemSetAccess"),
            "[cuda] setting the access rights of pages: driver error 999 (a CUresult of cuda.h)");
  EXPECT_EQ(cuda_double::in_use(0), before);
  EXPECT_FALSE(cuda_double::is_one_piece(reinterpret_cast<const void*>(where), driver.page()));
  Driver::Page page{};
  EXPECT_TRUE(driver.map(where, driver.page(), page));
  driver.unmap(where, driver.page(), page);
  driver.give_back_addresses(where, driver.page());
}

TEST(CudaDriver, MapReturnsFalseIfTheMappingFindsNoMemory) {
  const Driver driver(0);
  const CUdeviceptr where = driver.reserve(driver.page());
  const int64_t before = cuda_double::in_use(0);
  for (const char* function : {"cuMemMap", "cuMemSetAccess"}) {
    cuda_double::fail_next(function, CUDA_ERROR_OUT_OF_MEMORY);
    Driver::Page page{};
    EXPECT_FALSE(driver.map(where, driver.page(), page)) << function;
    EXPECT_EQ(cuda_double::in_use(0), before) << function;
    EXPECT_FALSE(cuda_double::is_one_piece(reinterpret_cast<const void*>(where), driver.page())) << function;
  }
  driver.give_back_addresses(where, driver.page());
}

TEST(CudaDriver, FailingMapOfAWholeBlockGivesItsAddressesBack) {
  const Driver driver(0);
  WholeBlocks blocks(driver);
  const int64_t before = cuda_double::reservations();
  cuda_double::fail_next("cuMemMap");
  EXPECT_THROW(static_cast<void>(blocks.take(int64_t{2} << 20)), base::Error);
  EXPECT_EQ(cuda_double::reservations(), before);
  EXPECT_EQ(blocks.held(), 0);
}

}  // namespace
}  // namespace hexad::device::cuda
