#include "tests/support/cuda_double/launches.h"

#include <mutex>
#include <utility>

namespace hexad::cuda_double {
namespace {

struct Launches {
  std::mutex mutex;
  LaunchCounts by_name;
};
// Returns the counts. They are never destroyed, because contexts in static variables end later.
Launches& launches() {
  static Launches& all = *new Launches;
  return all;
}

}  // namespace

void count_launch(std::string_view name) {
  std::lock_guard lock(launches().mutex);
  ++launches().by_name[std::string(name)];
}

LaunchCounts take_launches() {
  std::lock_guard lock(launches().mutex);
  return std::exchange(launches().by_name, {});
}

}  // namespace hexad::cuda_double
