#include "tools/check_cluster/wait_for_each.h"

#include <chrono>
#include <thread>

#include "framework/base/clock.h"

namespace hexad::check_cluster {

std::vector<std::optional<double>> wait_for_each(size_t count, double patience,
                                                 const std::function<bool(size_t)>& holds) {
  constexpr auto pause = std::chrono::milliseconds(10);
  std::vector<std::optional<double>> seconds(count);
  const double began = base::now();
  for (bool first = true;; first = false) {
    bool all = true;
    for (size_t i = 0; i < count; ++i) {
      if (seconds[i]) continue;
      if (holds(i))
        seconds[i] = first ? 0 : base::now() - began;
      else
        all = false;
    }
    if (all || (!first && base::now() - began >= patience)) return seconds;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace hexad::check_cluster
