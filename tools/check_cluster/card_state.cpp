#include "tools/check_cluster/measurements.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace hexad::check_cluster {
namespace {

// NVML's types and values. NVML's header is part of the CUDA toolkit, which builds without CUDA do not have.
using NvmlDevice = void*;
constexpr int nvml_success = 0, uncorrected_errors = 1, since_driver_load = 0, gpu_sensor = 0, sm_clock = 1;

/// The library NVML, if it can be loaded. The library is never unloaded.
class Nvml {
 public:
  explicit Nvml(const std::string& library) : handle_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    initialised_ = handle_ && succeeds<>("nvmlInit_v2");
  }
  ~Nvml() {
    if (initialised_) succeeds<>("nvmlShutdown");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool initialised() const { return initialised_; }

  /// Calls the function with parameters of exactly these types. Returns false if NVML lacks the function or if the
  /// function fails.
  template <class... Parameters>
  bool succeeds(const char* function, Parameters... parameters) const {
    void* found = ::dlsym(handle_, function);
    return found && reinterpret_cast<int (*)(Parameters...)>(found)(parameters...) == nvml_success;
  }

 private:
  void* handle_;
  bool initialised_ = false;
};

// Returns NVML's name of a GPU. `id` has the 32 hexadecimal digits of the name.
std::string uuid_of(const std::string& id) {
  std::string uuid = "GPU";
  size_t at = 0;
  for (const size_t digits : {8, 4, 4, 4, 12}) {
    uuid += '-' + id.substr(std::min(at, id.size()), digits);
    at += digits;
  }
  return uuid;
}

}  // namespace

CardState read_card_state(const std::string& id, const std::string& library) {
  CardState state;
  const Nvml nvml(library);
  if (!nvml.initialised()) return state;
  std::array<char, 96> version{};  // NVML's own buffers of this kind have 80 bytes
  if (nvml.succeeds<char*, unsigned>("nvmlSystemGetDriverVersion", version.data(), version.size() - 1))
    state.driver = version.data();
  NvmlDevice card = nullptr;
  const std::string uuid = uuid_of(id);
  if (!nvml.succeeds<const char*, NvmlDevice*>("nvmlDeviceGetHandleByUUID", uuid.c_str(), &card)) return state;
  unsigned long long wide = 0;
  unsigned value = 0;
  if (nvml.succeeds<NvmlDevice, int, int, unsigned long long*>("nvmlDeviceGetTotalEccErrors", card, uncorrected_errors,
                                                               since_driver_load, &wide))
    state.uncorrected_errors = static_cast<int64_t>(wide);
  if (nvml.succeeds<NvmlDevice, unsigned long long*>("nvmlDeviceGetCurrentClocksThrottleReasons", card, &wide))
    state.throttle_reasons = static_cast<int64_t>(wide);
  if (nvml.succeeds<NvmlDevice, int, unsigned*>("nvmlDeviceGetTemperature", card, gpu_sensor, &value))
    state.temperature = static_cast<int>(value);
  if (nvml.succeeds<NvmlDevice, int, unsigned*>("nvmlDeviceGetClockInfo", card, sm_clock, &value))
    state.clock = static_cast<int>(value);
  if (nvml.succeeds<NvmlDevice, int, unsigned*>("nvmlDeviceGetMaxClockInfo", card, sm_clock, &value))
    state.highest_clock = static_cast<int>(value);
  return state;
}

}  // namespace hexad::check_cluster
