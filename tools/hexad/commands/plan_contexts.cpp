#include "tools/hexad/commands/plan_contexts.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"

namespace hexad::app {

using namespace plan;

namespace {

using base::human_bytes;
using Json = nlohmann::ordered_json;

// Bytes that a rank sends in a step over the fast link, and over the network. Means over pipeline stages.
struct Sent {
  double inside = 0, network = 0;
};

Sent sent_by(const StepForecast& step) {
  Sent sent;
  for (const StepForecast::Stage& stage : step.stages) {
    sent.network += stage.network, sent.inside -= stage.network;
    for (const double bytes : stage.sent) sent.inside += bytes;
  }
  const auto stages = static_cast<double>(step.stages.size());
  return {sent.inside / stages, sent.network / stages};
}

mesh::Layout layout_of(const PlannedLayout& l, int64_t ranks) {
  return {l.candidate.recipe.parallel.sizes(), static_cast<int>(ranks)};
}

// Returns a text like "140 GiB per rank with dp 1, tp 8, ...".
std::string memory_text(const FittingLayout& l) {
  return fmt::format("{} per rank with {}", human_bytes(l.layout.memory.total), l.layout.candidate.to_string(l.ranks));
}

int64_t nodes_of(int64_t ranks, int64_t ranks_per_node) { return (ranks + ranks_per_node - 1) / ranks_per_node; }

Json layout_json(const PlannedLayout& l, int64_t ranks) {
  Json settings = Json::object();
  for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
  return {{"layout", l.candidate.to_string(ranks)}, {"settings", settings}, {"memory_bytes", l.memory.total}};
}

// Returns the memory that is missing for a sequence length. If no layout is legal, the object has only the member
// `legal`.
Json shortfall_json(const Shortfall& shortfall) {
  Json json;
  json["legal"] = shortfall.least.has_value();
  if (!shortfall.least) return json;
  json.update(layout_json(shortfall.least->layout, shortfall.least->ranks));
  json["missing_bytes"] = shortfall.missing();
  json["tensor_memory_bytes"] = shortfall.memory;
  return json;
}

// Returns a text like "64 ranks (8 nodes)".
std::string ranks_text(int64_t ranks, int64_t ranks_per_node) {
  return fmt::format("{} ({})", base::counted(ranks, "rank"), base::counted(nodes_of(ranks, ranks_per_node), "node"));
}

std::string missing_text(const Shortfall& shortfall) {
  if (!shortfall.least) return "no layout is legal";
  return fmt::format("the least memory found is {} per rank, {} more than the {} that its tensors may take, with {}",
                     human_bytes(shortfall.least->layout.memory.total), human_bytes(shortfall.missing()),
                     human_bytes(shortfall.memory),
                     shortfall.least->layout.candidate.to_string(shortfall.least->ranks));
}

std::string more_ranks_text(const PlanAt& plan_at, const Shortfall& shortfall, int64_t ranks_per_node) {
  const auto fit = with_more_ranks(plan_at, shortfall);
  return fit ? fmt::format("{} would suffice: {}", ranks_text(fit->ranks, ranks_per_node), memory_text(*fit))
             : "no number of ranks that was tried would suffice";
}

auto first_lacking(std::span<const PathPoint> path) {
  return std::ranges::find_if(path, [](const PathPoint& p) { return p.shortfall.has_value(); });
}

// Returns the axes whose sizes differ between the layouts of the points `i` - 1 and `i`. Point `i` must have a layout.
// Returns no axes if there is no previous point, or if the previous point has no layout.
std::vector<ChangedAxis> changes_at(std::span<const PathPoint> path, size_t i) {
  if (i == 0 || !path[i - 1].layout) return {};
  return changed_axes(layout_of(*path[i - 1].layout, path[i - 1].ranks), layout_of(*path[i].layout, path[i].ranks));
}

// Returns a text like "cp 1 -> 2, dp 8 -> 4"; empty if no axis changes.
std::string growth_text(const std::vector<ChangedAxis>& changes) {
  std::string text;
  for (const ChangedAxis& c : changes)
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", mesh::name_of(c.axis), c.from, c.to);
  return text;
}

}  // namespace

std::string shortfall_text(const PlanAt& plan_at, const Shortfall& shortfall, int64_t ranks_per_node) {
  std::string text =
      fmt::format("{}\n{}", missing_text(shortfall), more_ranks_text(plan_at, shortfall, ranks_per_node));
  if (const auto fit = with_shorter_context(plan_at, shortfall))
    text += fmt::format("; a context of {} would suffice: {}", context_text(fit->context), memory_text(*fit));
  else
    text += "; no shorter context that was tried (halves, down to 1024 tokens) would suffice";
  return text;
}

void print_path(const PlanAt& plan_at, std::span<const PathPoint> path, int64_t ranks_per_node) {
  fmt::print("{:>7} {:>7} {:>10} {:>9} {:>9} {:>9} {:<10} {:>6} {:>5}  {}\n", "context", "ranks", "step", "memory",
             "inside", "network", "expansion", "switch", "by", "layout");
  for (size_t i = 0; i < path.size(); ++i) {
    const PathPoint& p = path[i];
    const std::string begin = fmt::format("{:>7} {:>7}", context_text(p.context), p.ranks);
    if (!p.layout) {
      fmt::print("{} does not fit: {}\n", begin, missing_text(*p.shortfall));
      continue;
    }
    const ContextExpansion e = expansion_of(layout_of(*p.layout, p.ranks));
    const Sent sent = sent_by(p.layout->step);
    fmt::print("{} {:>10} {:>9} {:>9} {:>9} {:<10} {:>6} {:>5}  {}\n", begin,
               base::precise_duration(p.layout->step.seconds), human_bytes(p.layout->memory.total),
               human_bytes(sent.inside), human_bytes(sent.network), base::enum_name(e.kind), e.switched,
               e.smallest_step, p.layout->candidate.to_string(p.ranks));
    if (const std::string growth = growth_text(changes_at(path, i)); !growth.empty())
      fmt::print("{:>15} {}\n", "", growth);
  }
  fmt::print(
      "\ninside, network: bytes that a rank sends in a step on the fast link and on the network (mean over stages)\n"
      "switch: number of ranks with the same tp coordinate that communicate over the network\n"
      "by: number of ranks by which the job can grow if its groups keep their sizes\n");
  const auto lacking = first_lacking(path);
  if (lacking == path.end()) return;
  const PathPoint& longest = *(lacking - 1);
  fmt::print("longest context that fits: {} on {}\n", context_text(longest.context),
             ranks_text(longest.ranks, ranks_per_node));
  fmt::print("for {}: {}\n", context_text(lacking->context),
             more_ranks_text(plan_at, *lacking->shortfall, ranks_per_node));
}

nlohmann::ordered_json path_json(const PlanAt& plan_at, std::span<const PathPoint> path, int64_t ranks_per_node) {
  Json list = Json::array();
  for (size_t i = 0; i < path.size(); ++i) {
    const PathPoint& p = path[i];
    Json point{{"context", p.context}, {"ranks", p.ranks}, {"fits", p.layout.has_value()}};
    if (p.shortfall) point.update(shortfall_json(*p.shortfall));
    if (p.layout) {
      const mesh::Layout now = layout_of(*p.layout, p.ranks);
      const ContextExpansion e = expansion_of(now);
      const Sent sent = sent_by(p.layout->step);
      Json changed = Json::object();
      for (const ChangedAxis& c : changes_at(path, i)) changed[std::string(mesh::name_of(c.axis))] = {c.from, c.to};
      point.update(layout_json(*p.layout, p.ranks));
      point.update(Json{{"step_seconds", p.layout->step.seconds},
                        {"sent_inside_bytes", sent.inside},
                        {"sent_network_bytes", sent.network},
                        {"expansion", std::string(base::enum_name(e.kind))},
                        {"switched_ranks", e.switched},
                        {"smallest_step", e.smallest_step},
                        {"micro_batches_of_ep_group", e.micro_batches},
                        {"changed", changed}});
    }
    list.push_back(std::move(point));
  }
  Json json;
  json["path"] = std::move(list);
  const auto lacking = first_lacking(path);
  if (lacking == path.end()) return json;
  const PathPoint& longest = *(lacking - 1);
  json["longest_that_fits"] = {
      {"context", longest.context}, {"ranks", longest.ranks}, {"nodes", nodes_of(longest.ranks, ranks_per_node)}};
  Json& nearest = json["nearest_that_fits"];  // null: no layout that was tried fits
  if (const auto fit = with_more_ranks(plan_at, *lacking->shortfall)) {
    nearest = {{"context", fit->context}, {"ranks", fit->ranks}, {"nodes", nodes_of(fit->ranks, ranks_per_node)}};
    nearest.update(layout_json(fit->layout, fit->ranks));
  }
  return json;
}

}  // namespace hexad::app
