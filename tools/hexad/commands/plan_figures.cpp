#include "tools/hexad/commands/plan_figures.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace hexad::app {

using namespace plan;

std::string LayoutFigures::exposed_text() const {
  std::string text;
  for (int c = 0; c < comm::traffic_class_count; ++c)
    if (exposed[c] >= 0.005)
      text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name_of(static_cast<comm::TrafficClass>(c)),
                          100 * exposed[c]);
  return text.empty() ? "-" : text;
}

std::string_view LayoutFigures::bound_by() const {
  const double* most = std::ranges::max_element(exposed);
  if (kernels >= *most && kernels >= idle) return "kernels";
  return idle >= *most ? "idle" : name_of(static_cast<comm::TrafficClass>(most - exposed));
}

LayoutFigures figures_of(const Planned& planned, const PlannedLayout& l) {
  LayoutFigures f{};
  f.rates = throughput(l.step.seconds, planned.recipe, planned.extensions, planned.prices, planned.ranks);
  const double all = l.step.seconds * static_cast<double>(l.step.stages.size());
  for (const StepForecast::Stage& stage : l.step.stages) {
    f.kernels += stage.busy / all, f.idle += stage.idle / all;
    for (int c = 0; c < comm::traffic_class_count; ++c) f.exposed[c] += stage.exposed[c] / all;
  }
  return f;
}

LayoutComparison compare(const Planned& planned, const PlannedLayout& from, const PlannedLayout& to) {
  const LayoutFigures a = figures_of(planned, from), b = figures_of(planned, to);
  LayoutComparison difference;
  const auto part = [&](std::string name, double share_a, double share_b) {
    const double x = share_a * from.step.seconds, y = share_b * to.step.seconds;
    if (std::abs(y - x) > 0.001 * from.step.seconds) difference.parts.push_back({std::move(name), x, y});
  };
  part("kernels", a.kernels, b.kernels);
  for (int c = 0; c < comm::traffic_class_count; ++c)
    part(fmt::format("{} exposed", name_of(static_cast<comm::TrafficClass>(c))), a.exposed[c], b.exposed[c]);
  part("idle", a.idle, b.idle);
  difference.settings = changed_settings(from.candidate, to.candidate, planned.ranks);
  return difference;
}

TwiceRanks figures_on_twice(const Planned& planned, const PlannedLayout& best, const PlannedLayout& on_twice) {
  Planned twice = planned;
  twice.ranks *= 2;
  return {.figures = figures_of(twice, on_twice), .efficiency = best.step.seconds / (2 * on_twice.step.seconds)};
}

std::set<std::string> uneven_groups_of(const std::vector<PlannedLayout>& layouts) {
  std::set<std::string> groups;
  for (const PlannedLayout& l : layouts) groups.insert(l.step.uneven_groups.begin(), l.step.uneven_groups.end());
  return groups;
}

std::string_view unmodelled_costs() {
  return "stragglers, clocks that vary, traffic of other jobs, evaluation and checkpoints";
}

}  // namespace hexad::app
