// Test double of libnvidia-ml.so.1 on a machine with two GPUs. One GPU is hot and has ECC errors. The other GPU has no
// ECC, and the library does not report its clocks.
#include <cstdio>
#include <string_view>

namespace {

constexpr int success = 0, invalid_argument = 2, not_supported = 3, not_found = 6;
int hot = 0, plain = 0;  // their addresses are the handles of the GPUs

}  // namespace

extern "C" {

int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "580.65.06");
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (uuid == std::string_view("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"))
    *device = &hot;
  else if (uuid == std::string_view("GPU-ffffffff-ffff-ffff-ffff-ffffffffffff"))
    *device = &plain;
  else
    return not_found;
  return success;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  if (type != 1 || counter != 0) return invalid_argument;  // uncorrected errors since the driver was loaded
  if (device != &hot) return not_supported;
  *count = 3;
  return success;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = device == &hot ? 0x44 : 0;  // hardware thermal slowdown and software power cap
  return success;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (sensor != 0) return invalid_argument;
  *celsius = device == &hot ? 91 : 40;
  return success;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* megahertz) {
  if (clock != 1) return invalid_argument;  // clock of the multiprocessors
  if (device != &hot) return not_supported;
  *megahertz = 1200;
  return success;
}
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* megahertz) {
  if (clock != 1) return invalid_argument;
  if (device != &hot) return not_supported;
  *megahertz = 1980;
  return success;
}

}  // extern "C"
