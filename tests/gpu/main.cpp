// Tests of the CUDA backend. The program skips all tests if the GPU or its libraries cannot be used. It then prints one
// line and returns the status that ctest treats as skipped.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "tests/gpu/card.h"
#include "tests/kernels/backends.h"

namespace hexad::tests {
namespace {

std::unique_ptr<device::DeviceContext> the_card;  // made and destroyed by run()

int run() {
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  try {
    the_card = std::make_unique<device::DeviceContext>(
        device::ContextOptions{.kind = device::DeviceKind::cuda, .poison = true});
  } catch (const base::Error& e) {
    std::cout << "skipped: " << e.what() << '\n';
    constexpr int skipped = 77;
    return skipped;
  }
  std::cout << the_card->description() << '\n';
  const int status = RUN_ALL_TESTS();
  the_card.reset();
  return status;
}

}  // namespace

device::DeviceContext& card() { return *the_card; }

std::vector<Backend> backends_under_test() { return {{"cuda", &kernels::cuda_kernels(), device::DeviceKind::cuda}}; }

}  // namespace hexad::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return hexad::tests::run();
}
