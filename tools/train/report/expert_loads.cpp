#include "tools/train/report/step_meter.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "framework/base/error.h"

namespace hexad::train {

using namespace layers;

std::vector<std::vector<double>> expert_loads(const ModelConfig& model, const std::vector<RouterStatistics>& routers) {
  if (routers.empty()) return {};
  base::require(std::ssize(routers) == model.moe_layers(), "[metrics] there are statistics of ", routers.size(),
                " routers, expected ", model.moe_layers());
  std::vector<std::vector<double>> loads(model.blocks());
  auto router = routers.begin();
  for (int64_t block = 0; block < model.blocks(); ++block) {
    if (!model.is_moe(block)) continue;
    const auto pairs = static_cast<double>(
        std::max<int64_t>(1, std::accumulate(router->counts.begin(), router->counts.end(), int64_t{0})));
    for (const int64_t count : router->counts) loads[block].push_back(static_cast<double>(count) / pairs);
    ++router;
  }
  return loads;
}

}  // namespace hexad::train
