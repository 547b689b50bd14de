#include "tests/support/cuda_double/launches.h"

#include <mutex>
#include <utility>

namespace hexad::cuda_double {
namespace {

struct Launches {
  std::mutex mutex;
  LaunchCounts by_name, last_blocks;
};
// Returns the counts. The counts are never destroyed, because contexts in static variables end later.
Launches& launches() {
  static Launches& all = *new Launches;
  return all;
}

}  // namespace

void count_launch(std::string_view name) {
  std::lock_guard lock(launches().mutex);
  ++launches().by_name[std::string(name)];
}

void note_blocks(std::string_view name, int64_t blocks) {
  std::lock_guard lock(launches().mutex);
  launches().last_blocks[std::string(name)] = blocks;
}

int64_t last_blocks(std::string_view name) {
  std::lock_guard lock(launches().mutex);
  const auto at = launches().last_blocks.find(name);
  return at == launches().last_blocks.end() ? 0 : at->second;
}

LaunchCounts take_launches() {
  std::lock_guard lock(launches().mutex);
  return std::exchange(launches().by_name, {});
}

}  // namespace hexad::cuda_double
