// NVIDIA's libraries, loaded at first use: their functions exist, and an error names a missing library or function.
#include <cublasLt.h>
#include <cudnn.h>
#include <gtest/gtest.h>
#include <nvrtc.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "framework/base/error.h"
#include "framework/device/cuda/shared_library.h"

namespace hexad::tests {
namespace {

using device::cuda::SharedLibrary;

class LibrariesTest : public testing::Test {
 protected:
  LibrariesTest() {
    std::string name = (std::filesystem::temp_directory_path() / "hexad-test-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~LibrariesTest() override {
    ::unsetenv("HEXAD_CUDA_LIBRARIES");
    std::filesystem::remove_all(folder);
  }
  // Loads `library`, searched only in `folder`, and looks up `function`. Returns the message of the error, or "none".
  std::string message(const std::string& library, const char* function = "cudnnCreate") {
    ::setenv("HEXAD_CUDA_LIBRARIES", folder.c_str(), 1);
    try {
      SharedLibrary(library).function<void()>(function);
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::resource);
      return e.what();
    }
    return "none";
  }
  std::string folder;
};

constexpr const char* way_out =
    "; install CUDA 13 and cuDNN 9, set HEXAD_CUDA_LIBRARIES to the folder that contains them, or use device: cpu";

TEST_F(LibrariesTest, MissingLibraryIsNamed) {
  EXPECT_EQ(message("libcudnn.so.9"), "device: cuda was requested, but libcudnn.so.9 cannot be loaded (" + folder +
                                          "/libcudnn.so.9: cannot open shared object file: No such file or directory)" +
                                          way_out);
}

TEST_F(LibrariesTest, NonLibraryFileIsNamed) {
  std::ofstream(folder + "/libcudnn.so.9") << "cuDNN";
  EXPECT_EQ(message("libcudnn.so.9"), "device: cuda was requested, but libcudnn.so.9 cannot be loaded (" + folder +
                                          "/libcudnn.so.9: file too short)" + way_out);
}

TEST_F(LibrariesTest, MissingFunctionIsNamed) {
  std::filesystem::create_symlink("/lib/x86_64-linux-gnu/libm.so.6", folder + "/libcudnn.so.9");
  EXPECT_EQ(
      message("libcudnn.so.9"),
      base::cat(
          "device: cuda was requested, but libcudnn.so.9 has no cudnnCreate, because its version differs from the "
          "version that this program was built for",
          way_out));
  EXPECT_EQ(message("libcudnn.so.9", "cos"), "none");
}

// Calls only functions that need no card.
TEST_F(LibrariesTest, FunctionsOfTheToolkitsCanBeCalled) {
  EXPECT_STREQ(cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED), "the requested functionality is not supported");
  EXPECT_EQ(cudnnGetVersion(), static_cast<size_t>(CUDNN_VERSION));
  nvrtcProgram program = nullptr;
  ASSERT_EQ(nvrtcCreateProgram(&program, "__global__ void nothing() {}", "nothing.cu", 0, nullptr, nullptr),
            NVRTC_SUCCESS);
  const char* const options[] = {"-arch=sm_90"};
  EXPECT_EQ(nvrtcCompileProgram(program, 1, options), NVRTC_SUCCESS);
  size_t size = 0;
  EXPECT_EQ(nvrtcGetCUBINSize(program, &size), NVRTC_SUCCESS);
  EXPECT_GT(size, 0u);
  EXPECT_EQ(nvrtcDestroyProgram(&program), NVRTC_SUCCESS);
}

}  // namespace
}  // namespace hexad::tests
