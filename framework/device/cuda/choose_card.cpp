#include "framework/device/cuda/choose_card.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {
namespace {

// Returns CUDA's version number as text: 13000 is "13.0".
std::string version(int number) { return base::cat(number / 1000, ".", number % 1000 / 10); }

// Requests 32 connections to the card if the environment sets no other number. Streams that share a connection can wait
// for each other. The default of 8 connections is less than the number of lanes and traffic classes. CUDA reads the
// environment variable at its first call.
void request_connections() {
  static const int done = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  static_cast<void>(done);
}

int count_devices() {
  request_connections();
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "querying the driver's version");
  if (driver == 0) refuse_card("libcuda.so.1, the library of the NVIDIA driver, was not found");
  check(cudaRuntimeGetVersion(&runtime), "querying CUDA's version");
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  static_cast<void>(cudaGetLastError());  // clears the error, which is handled below
  if (result == cudaErrorInsufficientDriver)
    refuse_card(base::cat("the NVIDIA driver supports CUDA ", version(driver), ", but this program needs CUDA ",
                          version(runtime)));
  if (result == cudaErrorNoDevice || (result == cudaSuccess && devices == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    refuse_card(visible ? base::cat("no GPU is visible (CUDA_VISIBLE_DEVICES is '", visible, "')") : "there is no GPU");
  }
  if (result != cudaSuccess) refuse_card(base::cat("the NVIDIA driver reports an error: ", cudaGetErrorString(result)));
  return devices;
}

// Returns the ordinal of the rank's card. The cards of a node are assigned to its ranks in turn. HEXAD_LOCAL_RANK
// overrides `place`, the rank's index on its node.
int choose_device(int devices, int place) {
  const char* text = std::getenv("HEXAD_LOCAL_RANK");
  if (!text) return place % devices;
  const auto rank = base::parsed_number<int>(text);
  if (!rank || *rank < 0)
    base::fail(base::ExitCode::usage, "HEXAD_LOCAL_RANK is '", text, "', expected a whole number of at least 0");
  return *rank % devices;
}

// Throws Error(resource) if this program has no kernels for the card. HEXAD_CUDA_ARCH is, for example, "90a" for
// kernels of compute capability 9.0 only, or "90" for kernels of compute capability 9.0 and later.
void require_generation(const cudaDeviceProp& card) {
  const std::string built = HEXAD_CUDA_ARCH;
  const int needed = std::atoi(built.c_str()), has = 10 * card.major + card.minor;
  const bool only = built.find_first_not_of("0123456789") != std::string::npos;
  if (only ? has != needed : has < needed)
    refuse_card(base::cat("the ", card.name, " has compute capability ", card.major, ".", card.minor,
                          ", but this program was built for ", needed / 10, ".", needed % 10,
                          only ? "" : " and later"));
}

}  // namespace

void refuse_card(const std::string& reason) {
  base::fail(base::ExitCode::resource, "device: cuda was requested, but ", reason, "; use device: cpu");
}

std::shared_ptr<Card> choose_card(int place) {
  auto card = std::make_shared<Card>(choose_device(count_devices(), place));
  require_generation(card->properties());
  return card;
}

}  // namespace hexad::device::cuda
