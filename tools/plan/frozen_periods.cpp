#include "tools/plan/frozen_periods.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/name_pattern.h"
#include "layers/model_size.h"

namespace hexad::plan {
namespace {

// A parameter of a layer: the index of the layer and the rest of the parameter's name.
using OfLayer = std::pair<int64_t, std::string>;

// Divides "layers.3.moe.router.weight" into 3 and "moe.router.weight". The index is -1 if the parameter is outside the
// layers.
OfLayer divided(const std::string& name) {
  constexpr std::string_view prefix = "layers.";
  if (!name.starts_with(prefix)) return {-1, name};
  const size_t dot = name.find('.', prefix.size());
  return {std::stoll(name.substr(prefix.size(), dot - prefix.size())), name.substr(dot + 1)};
}

}  // namespace

int64_t layers_of_period(const train::Recipe& r) {
  return std::lcm(r.model.moe.experts > 0 ? r.model.moe.every : 1, r.model.attention_period());
}

std::vector<FrozenPeriods> frozen_periods(const train::Recipe& r, const train::Extensions& extensions) {
  if (r.optim.freeze.empty()) return {FrozenPeriods{}};
  const int64_t first = r.model.moe.dense_layers, period = layers_of_period(r),
                periods = std::max<int64_t>(1, (r.model.layers - first) / period);
  std::vector<std::string> common;  // frozen parameters outside all periods
  std::vector<std::vector<OfLayer>> of_period(
      static_cast<size_t>(periods));  // layers are counted from the start of the period
  for (const layers::NamedSize& p : layers::parameter_sizes(r.model, extensions)) {
    if (!base::matches_any(r.optim.freeze, p.name)) continue;
    auto [layer, rest] = divided(p.name);
    const int64_t at = layer - first;
    if (at < 0)
      common.push_back(p.name);
    else if (at / period < periods)
      of_period[at / period].emplace_back(at % period, std::move(rest));
  }
  std::map<std::vector<OfLayer>, int64_t> counts;
  for (const std::vector<OfLayer>& frozen : of_period) ++counts[frozen];
  std::vector<FrozenPeriods> kinds;
  for (const auto& [frozen, count] : counts) {
    FrozenPeriods kind{common, static_cast<double>(count) / static_cast<double>(periods)};
    for (const int64_t begin : {first, first + period})
      for (const auto& [layer, rest] : frozen) kind.freeze.push_back(base::cat("layers.", begin + layer, ".", rest));
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace hexad::plan
