#include "tools/hexad/commands/plan_json.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "framework/base/enum_names.h"
#include "tools/plan/capacity_gain.h"
#include "tools/plan/prediction_error.h"

namespace hexad::app {

using namespace plan;

namespace {

using Json = nlohmann::ordered_json;

// Returns `bytes`, or null if the number is not finite (unknown).
Json bytes_json(double bytes) { return std::isfinite(bytes) ? Json(bytes) : Json(nullptr); }

Json layout_json(const Planned& planned, const PlannedLayout& l) {
  const PredictionError& error = prediction_error(planned.cluster);
  const LayoutFigures f = figures_of(planned, l);
  Json settings = Json::object(), exposed = Json::object();
  for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
  for (int c = 0; c < comm::traffic_class_count; ++c)
    exposed[std::string(name_of(static_cast<comm::TrafficClass>(c)))] = f.exposed[c];
  return {{"layout", l.candidate.to_string(planned.ranks)},
          {"settings", settings},
          {"step_seconds", l.step.seconds},
          {"step_seconds_interval", {error.least(l.step.seconds), error.most(l.step.seconds)}},
          {"tokens_per_second", f.rates.tokens_per_second},
          {"mfu", f.rates.peak_flops_per_second > 0 ? Json(f.rates.mfu()) : Json(nullptr)},
          {"memory_bytes", l.memory.total},
          {"bound_by", f.bound_by()},
          {"kernel_share", f.kernels},
          {"idle_share", f.idle},
          {"exposed_share", exposed}};
}

Json walk_json(const Planned& planned, const std::vector<WalkStep>& walk) {
  Json steps = Json::array();
  for (const WalkStep& s : walk) {
    Json changed = Json::object();
    for (const ChangedSetting& c : s.changed) changed[c.key] = {c.from, c.to};
    steps.push_back({{"changed", changed},
                     {"layout", s.layout.candidate.to_string(planned.ranks)},
                     {"step_seconds", s.layout.price.seconds},
                     {"memory_bytes", s.layout.price.memory}});
  }
  return steps;
}

// Returns the layouts of CapacityGains; null for a layout that was not found.
Json capacity_json(const Planned& planned, const Plan& plan) {
  const auto found = [](const PlannedLayout& l, int64_t ranks) -> Json {
    return {{"ranks", ranks},
            {"layout", l.candidate.to_string(ranks)},
            {"step_seconds", l.step.seconds},
            {"memory_bytes", l.memory.total}};
  };
  const auto& [more_memory, twice_ranks] = *plan.capacity;
  Json json{{"memory_factor", memory_more}, {"more_memory", nullptr}, {"twice_ranks", nullptr}};
  if (more_memory) json["more_memory"] = found(*more_memory, planned.ranks);
  if (twice_ranks) {
    const TwiceRanks t = figures_on_twice(planned, plan.best.front(), *twice_ranks);
    Json& twice = json["twice_ranks"] = found(*twice_ranks, 2 * planned.ranks);
    twice["tokens_per_second"] = t.figures.rates.tokens_per_second;
    twice["efficiency"] = t.efficiency;
  }
  return json;
}

Json comparison_json(const Planned& planned, const PlannedLayout& from, const PlannedLayout& to,
                     const std::vector<WalkStep>& walk) {
  const LayoutComparison difference = compare(planned, from, to);
  Json parts = Json::object(), settings = Json::object();
  for (const LayoutComparison::Part& p : difference.parts) parts[p.name] = {p.from, p.to};
  for (const ChangedSetting& s : difference.settings) settings[s.key] = {s.from, s.to};
  return {{"changed_seconds", parts}, {"changed_settings", settings}, {"walk", walk_json(planned, walk)}};
}

}  // namespace

Json plan_json(const Planned& planned, const Plan& plan, double seconds,
               const std::vector<FewestRanks::Refused>& fewer) {
  Json layouts = Json::array();
  for (const PlannedLayout& l : plan.best) {
    Json layout = layout_json(planned, l);
    layout["memory_bytes_by_routing"] = {
        {"even", l.routed.even}, {"p99", l.routed.p99.bytes}, {"worst", l.routed.worst.bytes}};
    layouts.push_back(std::move(layout));
  }
  Json gains = Json::object();
  for (const ResourceGain& g : plan.gains) gains[std::string(base::enum_name(g.resource))] = g.seconds;
  Json json{{"recipe", planned.recipe_path},
            {"cluster", planned.cluster_path},
            {"ranks", planned.ranks},
            {"context", planned.recipe.model.context},
            {"routing", planned.routing},
            {"objective", std::string(base::enum_name(planned.objective))},
            {"combinations", plan.candidates.tried},
            {"legal", plan.legal},
            {"too_large", plan.too_large},
            {"needless", plan.needless},
            {"simulated", plan.simulated},
            {"changes", plan.changes},
            {"changes_left_out", plan.untried_changes},
            {"too_large_for_host", plan.too_large_for_host},
            {"search_seconds", seconds},
            {"refused", plan.candidates.refused},
            {"left_out", plan.candidates.left_out},
            {"layouts", layouts},
            {"tensor_memory_bytes", bytes_json(plan.memory)},
            {"gain_seconds", gains},
            {"gain_factor", unit_more},
            {"interval", prediction_error(planned.cluster).explanation()},
            {"assumed", assumptions(planned.cluster, uneven_groups_of(plan.best))},
            {"not_modelled", unmodelled_costs()}};
  if (plan.capacity) json["capacity_gain"] = capacity_json(planned, plan);
  if (planned.objective != Objective::ranks) return json;
  Json refused = Json::array();
  for (const FewestRanks::Refused& f : fewer)
    refused.push_back({{"ranks", f.ranks}, {"legal", f.legal}, {"least_memory_bytes", bytes_json(f.least_memory)}});
  json["refused_ranks"] = std::move(refused);
  return json;
}

Json explanation_json(const Planned& planned, const Plan& plan, const Explanation& e) {
  const PlannedLayout& best = plan.best.front();
  Json json = Json::object();
  if (plan.best.size() > 1) json["to_second"] = comparison_json(planned, best, plan.best[1], e.to_second);
  Json& as_is = json["to_recipe_as_it_is"];
  if (e.own.layout) {
    as_is = layout_json(planned, *e.own.layout);
    as_is["fits"] = e.own.layout->counted_memory() <= plan.memory;
    as_is.update(comparison_json(planned, best, *e.own.layout, e.to_own));
  } else {
    as_is["error"] = e.own.problem;
  }
  return json;
}

}  // namespace hexad::app
