// Functions of NVIDIA's NCCL library that need no card.
#include "parallel/comm/nccl/library.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error.h"

namespace hexad::comm::nccl {
namespace {

TEST(NcclLibrary, IsNamedIfItIsMissing) {
  ::setenv("HEXAD_CUDA_LIBRARIES", "/nowhere", 1);
  try {
    library();
    FAIL();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::resource);
    EXPECT_NE(std::string_view(e.what()).find("libnccl.so.2 cannot be loaded (/nowhere/libnccl.so.2: "),
              std::string_view::npos)
        << e.what();
  }
  ::unsetenv("HEXAD_CUDA_LIBRARIES");
}

TEST(NcclLibrary, HasTheRequestedFunctionsAndAtLeastTheHeaderVersion) {
  int version = 0;
  EXPECT_EQ(library().get_version(&version), ncclSuccess);
  EXPECT_GE(version, NCCL_VERSION_CODE);
  EXPECT_STREQ(library().get_error_string(ncclSuccess), "no error");
  EXPECT_EQ(library().group_start(), ncclSuccess);
  EXPECT_EQ(library().group_end(), ncclSuccess);
}

}  // namespace
}  // namespace hexad::comm::nccl
