#include "tools/scale/point_forecast.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "tools/plan/memory_check.h"
#include "tools/plan/memory_estimate.h"
#include "tools/plan/prediction_error.h"
#include "tools/plan/prices.h"
#include "tools/plan/state_bound.h"
#include "tools/plan/step_forecast.h"
#include "tools/train/recipe/complete.h"

namespace hexad::scale {

using base::cat;

namespace {

std::string key_of(const Point& point) {
  return cat(point.cluster, " ", fmt::format("{}", fmt::join(point.cluster_set, " ")));
}

// Returns the share of the step that is spent waiting, by class of traffic: the mean over pipeline stages.
std::map<std::string, double> exposed_shares(const plan::StepForecast& step) {
  std::map<std::string, double> shares;
  for (const plan::StepForecast::Stage& stage : step.stages)
    for (int c = 0; c < comm::traffic_class_count; ++c)
      if (stage.exposed[c] > 0)
        shares[std::string(comm::name_of(static_cast<comm::TrafficClass>(c)))] +=
            stage.exposed[c] / step.seconds / static_cast<double>(step.stages.size());
  return shares;
}

// Returns a text with `hours`, the sum of the predicted node-hours. Only `known` of the `points` points have a
// prediction.
std::string predicted_text(double hours, size_t known, size_t points) {
  if (known == 0) return "unknown node-hours";
  return cat(known < points ? "at least " : "", base::with_digits(hours, 3), " node-hours predicted");
}

}  // namespace

Clusters::Clusters(Experiment& experiment, const std::vector<Point>& points) {
  std::set<std::string> failed;
  for (const Point& point : points) {
    const std::string key = key_of(point);
    if (point.cluster.empty() || clusters_.contains(key) || failed.contains(key)) continue;
    try {
      clusters_.emplace(key, plan::load_cluster(point.cluster, point.cluster_set));
    } catch (const base::Error& e) {
      failed.insert(key);
      experiment.problems.add("cluster", cat("cannot be used at ", point.name, ": ", e.what(),
                                             "; `hexad profile --out FILE` writes a cluster file"));
    }
  }
}

const plan::Cluster* Clusters::of(const Point& point) const {
  const auto found = clusters_.find(key_of(point));
  return found == clusters_.end() ? nullptr : &found->second;
}

void Clusters::set_ranks(const ExperimentConfig& config, std::vector<Point>& points) const {
  for (Point& point : points) {
    point.max_ranks = config.max_ranks;
    point.ranks_per_node = config.ranks_per_node;
    const plan::Cluster* cluster = of(point);
    if (!cluster) continue;
    const plan::Prices prices(*cluster);
    if (point.max_ranks == 0) point.max_ranks = prices.nodes() * prices.ranks_per_node();
    if (point.ranks_per_node == 0) point.ranks_per_node = prices.ranks_per_node();
  }
}

PointForecast forecast_point(const LoadedPoint& point, const plan::Cluster* cluster,
                             const train::Extensions& extensions) {
  PointForecast forecast;
  try {
    const int64_t ranks = point.point.ranks;
    train::Recipe recipe = point.recipe;
    train::complete(recipe, 1);
    forecast.memory_bytes = plan::estimate_memory(recipe, extensions, ranks).total;
    if (!cluster) {
      forecast.trouble = "the experiment has no cluster file";
      return forecast;
    }
    if (const double limit = plan::tensor_memory(*cluster); std::isfinite(limit)) forecast.memory_limit = limit;
    const mesh::Layout layout(recipe.parallel.sizes(), static_cast<int>(ranks));
    const plan::StepForecast step =
        plan::forecast_step(recipe, extensions, layout, plan::StepPrices(*cluster, layout.world()));
    const plan::PredictionError& error = plan::prediction_error(*cluster);
    forecast.step_seconds = step.seconds;
    forecast.least = error.least(step.seconds);
    forecast.most = error.most(step.seconds);
    forecast.exposed_share = exposed_shares(step);
  } catch (const base::Error& e) {
    forecast.trouble = e.what();
  }
  return forecast;
}

void require_memory(Experiment& experiment, const std::vector<LoadedPoint>& points,
                    const std::vector<PointForecast>& forecasts, const train::Extensions& extensions, bool runs_here) {
  const config::Position at = experiment.problems.known().at("ranks").at;
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i].point;
    const PointForecast& forecast = forecasts[i];
    std::string lack;
    if (!forecast.fits()) {
      lack = cat("needs ", base::human_bytes(forecast.memory_bytes), " for the tensors of a rank, more than the ",
                 base::human_bytes(forecast.memory_limit), " that a rank has in ", point.cluster);
    } else if (runs_here && nodes_of(point) == 1) {
      train::Recipe recipe = points[i].recipe;
      train::complete(recipe, 1);
      const plan::MemoryFit fit = plan::memory_fit_on_this_machine(recipe, extensions, point.ranks);
      if (fit.verdict == plan::MemoryFit::Verdict::too_much) lack = fit.text;
    }
    if (!lack.empty()) experiment.problems.report(at, "", cat(point.name, ": ", lack));
  }
  experiment.problems.throw_if_any();
}

int64_t nodes_of(const Point& point) {
  return point.ranks_per_node > 0 ? (point.ranks - 1) / point.ranks_per_node + 1 : 1;
}

std::optional<double> predicted_node_hours(const ExperimentConfig& config, const PointForecast& forecast,
                                           const Point& point) {
  if (!forecast.step_seconds) return std::nullopt;
  const double seconds = *forecast.step_seconds * static_cast<double>(config.steps_of_run() * config.repeats);
  return seconds / 3600 * static_cast<double>(nodes_of(point));
}

int64_t max_minutes_of_run(const ExperimentConfig& config) {
  constexpr double end_of_run = 0.5;
  constexpr int64_t start = 1, signal = 2;
  return static_cast<int64_t>(std::ceil(config.minutes + end_of_run)) + start + signal;
}

double max_node_hours_of_run(const ExperimentConfig& config, const Point& point) {
  return static_cast<double>(max_minutes_of_run(config) * nodes_of(point)) / 60;
}

double max_node_hours(const ExperimentConfig& config, const Point& point) {
  return max_node_hours_of_run(config, point) * static_cast<double>(config.repeats);
}

std::string dry_run_table(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                          const std::vector<PointForecast>& forecasts) {
  const ExperimentConfig& c = experiment.config;
  size_t width = 5;
  for (const LoadedPoint& p : points) width = std::max(width, p.point.name.size());
  std::string out = fmt::format("{:>4} {:<{}} {:>6} {:>6} {:>10} {:>23} {:>10} {:>11}\n", "", "point", width, "ranks",
                                "nodes", "step", "90% of cases", "memory", "node-hours");
  double predicted = 0, most = 0;
  size_t known = 0;
  std::set<std::string> troubles;
  for (size_t i = 0; i < points.size(); ++i) {
    const PointForecast& f = forecasts[i];
    const Point& point = points[i].point;
    const std::optional<double> hours = predicted_node_hours(c, f, point);
    predicted += hours.value_or(0);
    known += hours ? 1 : 0;
    most += max_node_hours(c, point);
    if (!f.trouble.empty()) troubles.insert(f.trouble);
    out += fmt::format("{:>4} {:<{}} {:>6} {:>6} {:>10} {:>23} {:>10} {:>11}\n", i, point.name, width, point.ranks,
                       nodes_of(point), f.step_seconds ? base::precise_duration(*f.step_seconds) : "unknown",
                       f.step_seconds ? base::precise_duration(f.least) + " to " + base::precise_duration(f.most) : "",
                       f.memory_bytes > 0 ? base::human_bytes(f.memory_bytes) : "unknown",
                       hours ? base::with_digits(*hours, 3) : "unknown");
  }
  out += fmt::format("\n{}, {} each, {} ({} of warm-up): {}, at most {} with the limit of {} min per run\n",
                     base::counted(std::ssize(points), "point"), base::counted(c.repeats, "run"),
                     base::counted(c.steps_of_run(), "step"), c.warmup_steps,
                     predicted_text(predicted, known, points.size()), base::with_digits(most, 3), c.minutes);
  for (const std::string& trouble : troubles) out += fmt::format("no prediction of step times: {}\n", trouble);
  return out;
}

}  // namespace hexad::scale
