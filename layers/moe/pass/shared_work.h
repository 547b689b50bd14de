// Work beside a pass of the routed experts.
#pragma once

#include <cstdint>
#include <functional>

#include "framework/schedule/task_graph.h"

namespace hexad::moe {

/// What the shared experts compute of this rank's own tokens while rows of them are on their way.
struct SharedWork {
  std::function<void()> compute{};           // on the compute lane's stream; empty: nothing
  double flops = 0;                          // of one product
  schedule::ByGemmPass<int64_t> products{};  // as Experts::products() counts
};

}  // namespace hexad::moe
