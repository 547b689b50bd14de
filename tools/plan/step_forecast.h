// Prediction of a recipe's step on a cluster: records the operations of ranks, prices them, and simulates them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/plan/step_prices.h"

namespace hexad::plan {

/// Largest micro-batch for which steps are predicted, in tokens.
inline constexpr int64_t max_micro_batch_tokens = 1 << 22;

/// Prediction of a step. Times are in seconds.
struct StepForecast {
  double seconds = 0;
  /// Time of one rank of a pipeline stage: kernels and copies, exposed communication by class, and idle time. The three
  /// parts add up to `seconds`.
  struct Stage {
    int rank;
    double busy = 0, idle = 0;
    double update = 0;  // part of `busy`: norm of the gradients, and update of the weights
    /// Lower bounds of the step: kernels and copies of the busiest lane, and collectives of the busiest group, each
    /// operation alone on the machine.
    double work = 0, collectives = 0;
    std::array<double, comm::traffic_class_count> exposed{};
    std::array<double, comm::traffic_class_count> sent{};  // bytes by traffic class
    double network = 0;  // part of `sent`: bytes that leave the fast link's domain (RecordPrices::sent_over_network)
  };
  std::vector<Stage> stages;
  std::set<std::string> uneven_groups{};  // RecordPrices::uneven_groups() of all stages

  /// The simulated step and its operations. Only some micro-batches of a step with many micro-batches are simulated.
  /// The members above are then extrapolated. Extrapolation is possible because the pipeline's list of actions repeats.
  /// The extrapolated step is not shorter than any stage without its idle time.
  int64_t micro_batches = 0, simulated_micro_batches = 0;
  std::vector<StepRecord> records;
  SimulatedStep simulated;
};

/// Recorded operations of a step, which can be simulated with several sets of prices. Instead of a step with many
/// micro-batches, two steps with fewer micro-batches are recorded. The whole step is extrapolated from these two steps.
struct RecordedStep {
  struct Part {
    int64_t micro_batches;
    std::vector<StepRecord> stages;  // record of one rank of each pipeline stage
  };
  int64_t micro_batches;
  Part longer;
  std::optional<Part> shorter;  // none: `longer` has all micro-batches

  /// Returns a value of the whole step, extrapolated from the values of `longer` and `shorter`. Ignores `of_shorter` if
  /// there is no shorter part.
  double whole(double of_longer, double of_shorter) const;
};
/// Records a step for simulations. `shared` holds results of other runs; the runs of this call use these results and
/// add their own. The runs of this call share results only with each other if `shared` is null. Throws Error(usage) if
/// a micro-batch has more than max_micro_batch_tokens tokens.
RecordedStep record_for_forecast(const train::Recipe& recipe, const train::Extensions& extensions,
                                 const mesh::Layout& layout, const StepPrices& prices,
                                 RoutingLoad load = RoutingLoad::even, std::shared_ptr<SharedByRuns> shared = nullptr);
/// Simulates a recorded step. StepForecast::records is empty. Throws Error(usage) if the cluster lacks a rate that the
/// step needs.
StepForecast simulate_recorded(const RecordedStep& step, const train::Recipe& recipe, const StepPrices& prices);

/// Returns assumptions(cluster), and a text about the StepForecast::uneven_groups of predicted steps if there are any.
std::vector<std::string> assumptions(const Cluster& cluster, const std::set<std::string>& uneven_groups);

/// Rates of a predicted step, summed over all ranks.
struct Throughput {
  double tokens_per_second = 0;
  double model_flops_per_second = 0;  // recomputation is not counted (layers::ModelSize)
  double peak_flops_per_second = 0;   // peak rate of all ranks; 0: unknown

  /// Returns the share of the peak; 0 if the peak is unknown.
  double mfu() const { return peak_flops_per_second > 0 ? model_flops_per_second / peak_flops_per_second : 0; }
};
Throughput throughput(double step_seconds, const train::Recipe& recipe, const train::Extensions& extensions,
                      const Prices& prices, int64_t ranks);

/// Predicts a step of `layout` on the cluster of `prices`, with the load `load` of the experts. Assumes that all ranks
/// of a pipeline stage do the same work at the same time. With given loads of experts, simulates the ranks that are the
/// busiest in every layer (with_stragglers()). The other ranks wait for these ranks. `shared` is as in
/// record_for_forecast(). Throws the errors of record_for_forecast() and simulate_recorded().
StepForecast forecast_step(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                           const StepPrices& prices, RoutingLoad load = RoutingLoad::even,
                           std::shared_ptr<SharedByRuns> shared = nullptr);

/// Returns `forecast` if all micro-batches of the step were simulated. Otherwise, records and simulates all
/// micro-batches on the same ranks, which gives the timeline of the whole step. The other arguments must equal the
/// arguments of the forecast_step() call that returned `forecast`. Takes milliseconds for each layer and micro-batch.
StepForecast with_all_micro_batches(StepForecast forecast, const train::Recipe& recipe,
                                    const train::Extensions& extensions, const mesh::Layout& layout,
                                    const StepPrices& prices, RoutingLoad load);

}  // namespace hexad::plan
