// Predicted time, memory and cost of the points of an experiment.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/plan/cluster.h"
#include "tools/scale/points.h"

namespace hexad::scale {

/// Prediction of a point. Times are in seconds.
struct PointForecast {
  std::optional<double> step_seconds{};           // none without a cluster file, or if the step cannot be predicted
  double least = 0, most = 0;                     // interval of step_seconds
  std::map<std::string, double> exposed_share{};  // share of the step spent waiting, by class of traffic
  double memory_bytes = 0;                        // tensors of the rank that needs the most; 0: unknown
  double memory_limit = 0;                        // memory of a rank for tensors; 0: unknown
  std::string trouble{};                          // reason why there is no step_seconds; empty: step_seconds is set

  bool fits() const { return memory_limit <= 0 || memory_bytes <= memory_limit; }
};

/// Cluster files of an experiment. Points may have different files.
class Clusters {
 public:
  /// Reads the cluster file of every point. Adds a problem to the experiment for each file that cannot be read.
  Clusters(Experiment& experiment, const std::vector<Point>& points);

  /// Returns the cluster of the point; nullptr if the point has no cluster file, or if the file could not be read.
  const plan::Cluster* of(const Point& point) const;
  /// Sets Point::max_ranks and Point::ranks_per_node of each point to the experiment's numbers. Uses the number of the
  /// point's cluster if the experiment's number is 0.
  void set_ranks(const ExperimentConfig& config, std::vector<Point>& points) const;

 private:
  std::map<std::string, plan::Cluster> clusters_;
};

/// Predicts a point. A point whose step cannot be predicted has only `trouble` and, if known, the memory. The
/// memory estimate needs no cluster file, so `cluster` may be nullptr.
PointForecast forecast_point(const LoadedPoint& point, const plan::Cluster* cluster,
                             const train::Extensions& extensions);

/// Rejects points that do not fit into memory. Adds a problem to the experiment for each of these points. Then throws
/// config::RecipeError if the experiment has problems. Also compares points that need a single node with the memory of
/// this machine if `runs_here`.
void require_memory(Experiment& experiment, const std::vector<LoadedPoint>& points,
                    const std::vector<PointForecast>& forecasts, const train::Extensions& extensions, bool runs_here);

/// Returns the number of nodes of a point's run; 1 if the number of ranks on a node is unknown.
int64_t nodes_of(const Point& point);
/// Returns the predicted node-hours of all repeats of a point; none without a prediction. Does not count the start and
/// end of a run.
std::optional<double> predicted_node_hours(const ExperimentConfig& config, const PointForecast& forecast,
                                           const Point& point);
/// Returns the time limit, in whole minutes, of a job that executes one run. The limit is the sum of:
/// - the key `minutes` of the experiment
/// - 30 s for the end of a run that takes too long
/// - a minute for the start
/// - the two minutes before the limit, in which Slurm may already send its signal
///
/// A run that takes too long therefore fails before Slurm's signal. The signal would preempt and requeue the run again
/// and again.
int64_t max_minutes_of_run(const ExperimentConfig& config);
/// Returns the limit, in node-hours, of a job that executes one run of the point.
double max_node_hours_of_run(const ExperimentConfig& config, const Point& point);
/// Returns the limit, in node-hours, of all repeats of a point.
double max_node_hours(const ExperimentConfig& config, const Point& point);

/// Returns the table that --dry-run prints.
std::string dry_run_table(const Experiment& experiment, const std::vector<LoadedPoint>& points,
                          const std::vector<PointForecast>& forecasts);

}  // namespace hexad::scale
