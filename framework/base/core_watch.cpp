#include "framework/base/core_watch.h"

#include <sys/resource.h>

#include <utility>

namespace hexad::base {

bool CoreWatch::is_wanted() {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now < wanted_until_) return true;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const bool wanted = std::exchange(taken_, usage.ru_nivcsw) != usage.ru_nivcsw;
  if (wanted) wanted_until_ = now + 50ms;
  return wanted;
}

}  // namespace hexad::base
