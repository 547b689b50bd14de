#include "tools/hexad/commands/plan_output.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/enum_names.h"
#include "framework/base/units.h"
#include "tools/plan/prediction_error.h"

namespace hexad::app {

using namespace plan;

// Figures of a layout that are derived from its prediction.
struct PlanOutput::Figures {
  Throughput rates;
  double exposed[comm::traffic_class_count];  // share of the step, mean over stages
  double kernels, idle;

  /// Returns the classes of exposed communication above 0.5% of the step: "ep 12%, pp 3%".
  std::string exposed_text() const {
    std::string text;
    for (int c = 0; c < comm::traffic_class_count; ++c)
      if (exposed[c] >= 0.005)
        text += fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", name_of(static_cast<comm::TrafficClass>(c)),
                            100 * exposed[c]);
    return text.empty() ? "-" : text;
  }

  /// Returns the largest part of the step: "kernels", a class of exposed communication, or "idle".
  std::string_view bound_by() const {
    const double* most = std::ranges::max_element(exposed);
    if (kernels >= *most && kernels >= idle) return "kernels";
    return idle >= *most ? "idle" : name_of(static_cast<comm::TrafficClass>(most - exposed));
  }
};

PlanOutput::Figures PlanOutput::figures(const PlannedLayout& l) const {
  Figures f{};
  f.rates = throughput(l.step.seconds, planned_.recipe, planned_.extensions, planned_.prices, planned_.ranks);
  const double all = l.step.seconds * static_cast<double>(l.step.stages.size());
  for (const StepForecast::Stage& stage : l.step.stages) {
    f.kernels += stage.busy / all, f.idle += stage.idle / all;
    for (int c = 0; c < comm::traffic_class_count; ++c) f.exposed[c] += stage.exposed[c] / all;
  }
  return f;
}

void print_limits(const Cluster& cluster) {
  const std::vector<std::string> assumed = assumptions(cluster);
  for (size_t i = 0; i < assumed.size(); ++i) fmt::print("{}{}\n", i == 0 ? "assumed: " : "         ", assumed[i]);
  fmt::print(
      "not modelled: stragglers, launches that the host delays, clocks that vary, traffic of other jobs, evaluation "
      "and checkpoints\n");
}

void PlanOutput::print_table(const Plan& plan, double seconds) const {
  const PredictionError& error = prediction_error(planned_.cluster);
  fmt::print("{} on {} of {}, context {}, routing {}\n", planned_.recipe_path, base::counted(planned_.ranks, "rank"),
             planned_.cluster_path, planned_.recipe.model.context, planned_.routing);
  fmt::print("{} combinations, {} legal, {} too large for a rank; {} simulated; {}\n\n", plan.candidates.tried,
             plan.legal, plan.too_large, base::counted(plan.simulated, "layout"), base::human_duration(seconds));
  // Returns the bytes as text, marked if they are more than a rank has.
  const auto memory = [&](double bytes) { return base::human_bytes(bytes) + (bytes > plan.memory ? "!" : " "); };
  // Returns the column of a load that is read from a file.
  const auto of_file = [&](const std::string& text) {
    return planned_.load == RoutingLoad::given ? fmt::format(" {:>11}", text) : "";
  };
  size_t width = 0;  // width of the column of steps
  for (const PlannedLayout& l : plan.best) width = std::max(width, error.text(l.step.seconds).size());
  fmt::print("{:>2} {:>{}} {:>10} {:>6} {:>11} {:>11} {:>11}{} {:>6}  {:<22} {:<8} {}\n", "", "step", width, "tokens/s",
             "MFU", "even ", "p99 ", "worst ", of_file("file "), "idle", "exposed", "bound by", "layout");
  bool marked = false;
  for (size_t i = 0; i < plan.best.size(); ++i) {
    const PlannedLayout& l = plan.best[i];
    const Figures f = figures(l);
    fmt::print("{:>2} {:>{}} {:>10} {:>6} {:>11} {:>11} {:>11}{} {:>5.0f}%  {:<22} {:<8} {}\n", i + 1,
               error.text(l.step.seconds), width, base::human_count(f.rates.tokens_per_second),
               base::human_percent(f.rates.mfu()), memory(l.routed.even), memory(l.routed.p99.bytes),
               memory(l.routed.worst.bytes), of_file(memory(l.memory.total)), 100 * f.idle, f.exposed_text(),
               f.bound_by(), l.candidate.to_string(planned_.ranks));
    marked = marked || l.routed.worst.bytes > plan.memory;
  }
  fmt::print("\neven, p99, worst{}: memory of a rank under each routing{}",
             planned_.load == RoutingLoad::given ? ", file" : "",
             marked ? fmt::format("; !: more than the {} that tensors may take", base::human_bytes(plan.memory)) : "");
  fmt::print("\nbound by: the largest part of the step");
  fmt::print("\ngain by {:.0f}% more of a resource, of the step of 1:", 100 * (unit_more - 1));
  std::string_view separator = " ";
  for (const ResourceGain& g : plan.gains)
    fmt::print("{}{} {:.1f}%", std::exchange(separator, ", "), base::enum_name(g.resource),
               100 * g.seconds / plan.best.front().step.seconds);
  fmt::print("\nrefused by the rules of:");
  separator = " ";
  for (const auto& [key, count] : plan.candidates.refused)
    fmt::print("{}{} ({})", std::exchange(separator, ", "), key, count);
  fmt::print("\nstep: {}\n", error.explanation());
  print_limits(planned_.cluster);
}

void PlanOutput::print_difference(const std::string& title, const PlannedLayout& from, const PlannedLayout& to) const {
  const Figures a = figures(from), b = figures(to);
  fmt::print("\n{}\n", title);
  const auto line = [&](std::string_view what, double share_a, double share_b) {
    const double x = share_a * from.step.seconds, y = share_b * to.step.seconds;
    if (std::abs(y - x) > 0.001 * from.step.seconds)
      fmt::print("  {:<18} {:>10} -> {:>10}  {:+.1f}%\n", what, base::human_duration(x), base::human_duration(y),
                 100 * (y - x) / from.step.seconds);
  };
  line("kernels", a.kernels, b.kernels);
  for (int c = 0; c < comm::traffic_class_count; ++c)
    line(fmt::format("{} exposed", name_of(static_cast<comm::TrafficClass>(c))), a.exposed[c], b.exposed[c]);
  line("idle", a.idle, b.idle);
  const auto one = from.candidate.settings(), two = to.candidate.settings();
  for (size_t i = 0; i < one.size(); ++i)
    if (one[i].second != two[i].second) fmt::print("  {}: {} -> {}\n", one[i].first, one[i].second, two[i].second);
}

void PlanOutput::print_fewer(const Plan& plan, const std::vector<FewestRanks::Refused>& fewer) const {
  constexpr size_t most_lines = 4;
  fmt::print("\nfewest ranks that have room: {}\n", planned_.ranks);
  for (size_t i = fewer.size() - std::min(fewer.size(), most_lines); i < fewer.size(); ++i) {
    const FewestRanks::Refused& f = fewer[i];
    fmt::print("  {}: {}\n", base::counted(f.ranks, "rank"),
               f.legal == 0 ? "no layout is legal"
                            : fmt::format("{} legal, of which the smallest needs at least {} of {}", f.legal,
                                          base::human_bytes(f.least_memory), base::human_bytes(plan.memory)));
  }
}

void PlanOutput::print_json(const Plan& plan) const {
  using Json = nlohmann::ordered_json;
  const PredictionError& error = prediction_error(planned_.cluster);
  Json layouts = Json::array();
  for (const PlannedLayout& l : plan.best) {
    const Figures f = figures(l);
    Json settings = Json::object(), exposed = Json::object();
    for (const auto& [key, value] : l.candidate.settings()) settings[key] = value;
    for (int c = 0; c < comm::traffic_class_count; ++c)
      exposed[std::string(name_of(static_cast<comm::TrafficClass>(c)))] = f.exposed[c];
    layouts.push_back({{"settings", settings},
                       {"step_seconds", l.step.seconds},
                       {"step_seconds_interval", {error.least(l.step.seconds), error.most(l.step.seconds)}},
                       {"tokens_per_second", f.rates.tokens_per_second},
                       {"mfu", f.rates.peak_flops_per_second > 0 ? Json(f.rates.mfu()) : Json(nullptr)},
                       {"memory_bytes", l.memory.total},
                       {"memory_bytes_by_routing",
                        {{"even", l.routed.even}, {"p99", l.routed.p99.bytes}, {"worst", l.routed.worst.bytes}}},
                       {"bound_by", f.bound_by()},
                       {"kernel_share", f.kernels},
                       {"idle_share", f.idle},
                       {"exposed_share", exposed}});
  }
  Json gains = Json::object();
  for (const ResourceGain& g : plan.gains) gains[std::string(base::enum_name(g.resource))] = g.seconds;
  const Json json{{"recipe", planned_.recipe_path},
                  {"cluster", planned_.cluster_path},
                  {"ranks", planned_.ranks},
                  {"routing", planned_.routing},
                  {"combinations", plan.candidates.tried},
                  {"legal", plan.legal},
                  {"too_large", plan.too_large},
                  {"refused", plan.candidates.refused},
                  {"layouts", layouts},
                  {"gain_seconds", gains},
                  {"gain_factor", unit_more},
                  {"interval", error.explanation()},
                  {"assumed", assumptions(planned_.cluster)}};
  fmt::print("{}\n", json.dump(2));
}

}  // namespace hexad::app
