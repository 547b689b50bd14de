#include "tests/support/cuda_double/host_waits.h"

#include <mutex>
#include <utility>

namespace hexad::cuda_double {
namespace {

struct Waits {
  std::mutex mutex;
  WaitName name = nullptr;
  std::map<std::string, int64_t> by_name;
};
// Returns the counts. The counts are never destroyed, because contexts in static variables end later and wait then.
Waits& waits() {
  static Waits& all = *new Waits;
  return all;
}

}  // namespace

void name_host_waits_by(WaitName name) {
  std::lock_guard lock(waits().mutex);
  waits().name = name;
}

void count_host_wait(const char* function) {
  std::lock_guard lock(waits().mutex);
  std::string name = waits().name ? waits().name() : std::string();
  if (name.empty()) name = std::string("unnamed ") += function;
  ++waits().by_name[std::move(name)];
}

std::map<std::string, int64_t> take_host_waits() {
  std::lock_guard lock(waits().mutex);
  return std::exchange(waits().by_name, {});
}

}  // namespace hexad::cuda_double
