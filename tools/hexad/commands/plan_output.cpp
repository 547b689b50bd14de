#include "tools/hexad/commands/plan_output.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "tools/plan/capacity_gain.h"
#include "tools/plan/prediction_error.h"
#include "tools/plan/state_bound.h"

namespace hexad::app {

using namespace plan;

void print_limits(const Cluster& cluster, const std::set<std::string>& uneven_groups) {
  const std::vector<std::string> assumed = assumptions(cluster, uneven_groups);
  for (size_t i = 0; i < assumed.size(); ++i) fmt::print("{}{}\n", i == 0 ? "assumed: " : "         ", assumed[i]);
  fmt::print("not modelled: {}\n", unmodelled_costs());
}

void PlanOutput::print_table(const Plan& plan, double seconds) const {
  const PredictionError& error = prediction_error(planned_.cluster);
  fmt::print("{} on {} of {}, context {}, routing {}\n", planned_.recipe_path, base::counted(planned_.ranks, "rank"),
             planned_.cluster_path, planned_.recipe.model.context, planned_.routing);
  fmt::print(
      "{} combinations, {} legal, {} too large for a rank, {} with needless recomputation or zero 2; search: {}\n",
      plan.candidates.tried, plan.legal, plan.too_large, plan.needless, base::human_duration(seconds));
  fmt::print("simulated completely: {}; tried: {} of schedule, cp_kind, order and offload; {} left out\n",
             base::counted(plan.simulated, "layout"), base::counted(plan.changes, "change"),
             base::counted(plan.untried_changes, "change"));
  if (plan.too_large_for_host > 0)
    fmt::print("{} refused, because the tensors that a rank offloads exceed {}\n",
               base::counted(plan.too_large_for_host, "offloading layout"), limit_of_offload(planned_.cluster));
  fmt::print("\n");
  // Returns the bytes as text, with "!" if they exceed the memory of a rank.
  const auto memory = [&](double bytes) { return base::human_bytes(bytes) + (bytes > plan.memory ? "!" : " "); };
  // Returns `text` as a table column if the load was read from a file; otherwise an empty text.
  const auto of_file = [&](const std::string& text) {
    return planned_.load == RoutingLoad::given ? fmt::format(" {:>11}", text) : "";
  };
  size_t width = 0, exposed = 0;  // widths of the columns with the step times and the exposed communication
  std::vector<LayoutFigures> figures;
  for (const PlannedLayout& l : plan.best) {
    figures.push_back(figures_of(planned_, l));
    width = std::max(width, error.text(l.step.seconds).size());
    exposed = std::max(exposed, figures.back().exposed_text().size());
  }
  exposed = std::max<size_t>(exposed, 22);
  fmt::print("{:>2} {:>{}} {:>10} {:>6} {:>11} {:>11} {:>11}{} {:>6}  {:<{}} {:<8} {}\n", "", "step", width, "tokens/s",
             "MFU", "even ", "p99 ", "worst ", of_file("file "), "idle", "exposed", exposed, "bound by", "layout");
  bool marked = false;
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const PlannedLayout& l = plan.best[i];
    const LayoutFigures& f = figures[i];
    fmt::print("{:>2} {:>{}} {:>10} {:>6} {:>11} {:>11} {:>11}{} {:>5.0f}%  {:<{}} {:<8} {}\n", i + 1,
               error.text(l.step.seconds), width, base::human_count(f.rates.tokens_per_second),
               base::human_percent(f.rates.mfu()), memory(l.routed.even), memory(l.routed.p99.bytes),
               memory(l.routed.worst.bytes), of_file(memory(l.memory.total)), 100 * f.idle, f.exposed_text(), exposed,
               f.bound_by(), l.candidate.to_string(planned_.ranks));
    marked = marked || l.routed.worst.bytes > plan.memory;
  }
  fmt::print("\neven, p99, worst{}: memory of a rank under each routing{}",
             planned_.load == RoutingLoad::given ? ", file" : "",
             marked ? fmt::format("; !: more than the {} that tensors may take", base::human_bytes(plan.memory)) : "");
  fmt::print("\nbound by: the largest part of the step");
  print_gains(plan);
  for (const auto& [title, counts] :
       {std::pair("refused by the rules of", &plan.candidates.refused),
        std::pair("combinations left out by limits of the search", &plan.candidates.left_out)}) {
    fmt::print("\n{}:", title);
    std::string_view separator = " ";
    for (const auto& [key, count] : *counts) fmt::print("{}{} ({})", std::exchange(separator, ", "), key, count);
    if (counts->empty()) fmt::print(" none");
  }
  fmt::print("\nstep: {}\n", error.explanation());
  print_limits(planned_.cluster, uneven_groups_of(plan.best));
}

void PlanOutput::print_gains(const Plan& plan) const {
  const double seconds = plan.best.front().step.seconds;
  fmt::print("\ntime saved in the step of layout 1 by {:.0f}% more of a resource:", 100 * (unit_more - 1));
  std::string_view separator = " ";
  for (const ResourceGain& g : plan.gains)
    fmt::print("{}{} {}", std::exchange(separator, ", "), base::enum_name(g.resource),
               base::human_percent(g.seconds / seconds));
  if (!plan.capacity) return;
  fmt::print("\nwith {:.0f}% more memory of each rank (capacity gain): ", 100 * (memory_more - 1));
  if (const auto& more = plan.capacity->more_memory)
    fmt::print("{} shorter step ({}), {} a rank, {}", base::human_percent(1 - more->step.seconds / seconds),
               base::precise_duration(more->step.seconds), base::human_bytes(more->counted_memory()),
               more->candidate.to_string(planned_.ranks));
  else
    fmt::print("no shorter step found");
  const int64_t twice = 2 * planned_.ranks, all = planned_.prices.nodes() * planned_.prices.ranks_per_node();
  fmt::print("\nwith twice the ranks ({}): ", twice);
  if (const auto& on_twice = plan.capacity->twice_ranks) {
    const TwiceRanks t = figures_on_twice(planned_, plan.best.front(), *on_twice);
    fmt::print("{} a step, {} tokens/s, efficiency {}, {}", base::precise_duration(on_twice->step.seconds),
               base::human_count(t.figures.rates.tokens_per_second), base::human_percent(t.efficiency),
               on_twice->candidate.to_string(twice));
  } else {
    fmt::print("{}", twice > all ? "more than the cluster has" : "no layout found");
  }
}

void PlanOutput::print_difference(const std::string& title, const PlannedLayout& to, const Plan& plan,
                                  const std::vector<WalkStep>& walk) const {
  const PlannedLayout& from = plan.best.front();
  fmt::print("\n{}\n", title);
  for (const LayoutComparison::Part& p : compare(planned_, from, to).parts)
    fmt::print("  {:<18} {:>10} -> {:>10}  {:+.1f}%\n", p.name, base::precise_duration(p.from),
               base::precise_duration(p.to), 100 * (p.to - p.from) / from.step.seconds);
  fmt::print("  {:>10} {:>11} {:>11}  one change after another\n", "step", "difference", "memory ");
  for (size_t i = 0; i < walk.size(); ++i) {
    const auto& [seconds, memory] = walk[i].layout.price;
    const double more = i == 0 ? 0 : seconds - walk[i - 1].layout.price.seconds;
    fmt::print("  {:>10} {:>11} {:>11}  {}\n", base::precise_duration(seconds),
               i == 0 ? "" : fmt::format("{}{}", more < 0 ? "-" : "+", base::precise_duration(std::abs(more))),
               base::human_bytes(memory) + (memory > plan.memory ? "!" : " "),
               i == 0 ? "layout 1" : walk[i].changes_text());
  }
}

void PlanOutput::print_explanation(const Plan& plan, const Explanation& e) const {
  if (plan.best.size() > 1)
    print_difference("from layout 1 to layout 2, seconds of a step:", plan.best[1], plan, e.to_second);
  if (!e.own.layout) return fmt::print("\n{}\n", e.own.problem);
  const PlannedLayout& own = *e.own.layout;
  if (e.to_own.size() == 1) return fmt::print("\nlayout 1 is the layout of the unchanged recipe\n");
  std::string title = fmt::format("from layout 1 to the unchanged recipe, whose step takes {}:",
                                  prediction_error(planned_.cluster).text(own.step.seconds));
  if (const double bytes = own.counted_memory(); bytes > plan.memory)
    title += fmt::format("\n  does not fit: a rank needs {}, more than the {} that its tensors may take",
                         base::human_bytes(bytes), base::human_bytes(plan.memory));
  print_difference(title, own, plan, e.to_own);
}

void PlanOutput::print_fewer(const Plan& plan, const std::vector<FewestRanks::Refused>& fewer) const {
  constexpr size_t max_lines = 4;
  fmt::print("\nfewest ranks that suffice: {}\n", planned_.ranks);
  for (size_t i = fewer.size() - std::min(fewer.size(), max_lines); i < fewer.size(); ++i) {
    const FewestRanks::Refused& f = fewer[i];
    fmt::print("  {}: {}\n", base::counted(f.ranks, "rank"),
               f.legal == 0 ? "no layout is legal"
                            : fmt::format("the smallest of {} needs at least {} per rank; a rank has {}",
                                          base::counted(f.legal, "legal layout"), base::human_bytes(f.least_memory),
                                          base::human_bytes(plan.memory)));
  }
}

}  // namespace hexad::app
