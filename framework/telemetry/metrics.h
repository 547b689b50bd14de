// Metrics of a training run, and the interface of their listeners. The caller combines the values of all ranks. Only
// rank 0 passes them to the sinks, and every value is for the whole job.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/telemetry/rank_times.h"

namespace hexad::telemetry {

/// Traffic of one class ("ep", "tp", ...) in one step, evaluation or save. Seconds are means over ranks.
struct CommMetrics {
  int64_t bytes = 0;           // bytes sent, summed over ranks
  double seconds = 0;          // time in flight
  double exposed_seconds = 0;  // part of `seconds` during which computation waited
};
using CommByClass = std::map<std::string, CommMetrics>;

/// Predicted and measured time of the passes of all MoE layers in one step, in seconds. Each value is the mean over the
/// ranks that have MoE layers.
struct ScheduleMetrics {
  double predicted_seconds = 0, measured_seconds = 0;
  std::map<std::string, double> exposed_seconds =
      {};  // measured time without computation, by collective ("dispatch.a2a")
};

/// One optimizer step. Step numbers count finished optimizer steps: the first is 1.
struct StepMetrics {
  int64_t step = 0;
  int64_t tokens = 0;               // cumulative since step 0, all ranks
  std::optional<double> loss = {};  // nats per target; none: the global batch had no targets
  double lr = 0;
  double grad_norm = 0;  // global, before clipping
  double step_seconds = 0;
  double tokens_per_second = 0;
  double model_flops_per_second = 0;  // all ranks; counts the model's products once, without recomputation
  double mfu = 0;                     // share of the peak known at the end of the step; read_metrics() corrects it
  double peak_flops_per_second = 0;   // all ranks; the highest since the start of this program
  std::map<std::string, int64_t> memory_peak_bytes;  // by allocation category, on the rank with the largest peak
  double aux_loss = 0;
  double z_loss = 0;
  double router_max_load = 0;   // maximum over mean, of the worst layer
  double dropped_fraction = 0;  // fraction of token-expert pairs, 0..1
  CommByClass comm;             // traffic of this step only
  /// Number of reads of device memory for which the host waited, by name, on rank 0 since the previous step; empty on
  /// the CPU.
  std::map<std::string, int64_t> host_reads;
  int64_t skipped_steps = 0;  // cumulative: steps without a weight update, because of non-finite values or no targets
  /// [layer][expert]: share of the layer's token-expert pairs; each row sums to 1. The row of a dense layer is empty.
  /// The whole table is empty in steps that train.router_every skips.
  std::vector<std::vector<double>> expert_load;
  std::optional<ScheduleMetrics> schedule;  // only for recorded steps
  std::optional<RankTimes> ranks;           // only for jobs with several ranks
  int64_t started_after = 0;                // last step before the start of the program, or of the stage of training
  int64_t stage = 0;                        // stage of training, counted from 1; 0: the recipe has no stages
  std::string time = {};                    // utc_time(); empty in lines of older programs
};

/// Held-out evaluation after `step`.
struct EvalMetrics {
  int64_t step = 0;
  int64_t tokens = 0;                        // tokens predicted
  std::optional<double> loss = {};           // nats per token; none: there were no targets
  std::optional<double> bits_per_byte = {};  // bits per byte of the original text; none: there was no text
  int64_t sequences = 0;                     // number evaluated; 0 in lines of older programs
  int64_t of_sequences = 0;                  // size of the held-out set
  double seconds = 0;
  CommByClass comm = {};
  std::string time = {};

  bool whole_set() const { return sequences == of_sequences; }
};

/// A checkpoint that was written after `step`.
struct SaveMetrics {
  int64_t step = 0;
  int64_t bytes = 0;   // bytes of the tensors of all ranks
  double seconds = 0;  // time for which training waited
  CommByClass comm = {};
  std::string time = {};
};

/// Returns the current time: "2026-11-24T03:05:07.089Z".
std::string utc_time();

/// Facts about a run that are known before the first step.
struct RunInfo {
  std::string name = {};
  int64_t first_step = 0;  // steps already done: N when resuming from the checkpoint of step N, 0 for a new run
  int64_t total_steps = 0;
  int64_t parameters = 0;
  int64_t active_parameters = 0;  // parameters used by one token
  int ranks = 1;
};

/// Listens to one run: on_start(), then any number of on_step(), on_eval() and on_save() in order, then on_end(). Its
/// functions throw base::Error if they fail.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepMetrics&) {}
  virtual void on_eval(const EvalMetrics&) {}
  virtual void on_save(const SaveMetrics&) {}
  virtual void on_end() {}
};

/// Passes every call to its sinks, in the order in which they were added.
class MetricsHub : public MetricsSink {
 public:
  void add(std::unique_ptr<MetricsSink> sink) { sinks_.push_back(std::move(sink)); }
  void on_start(const RunInfo& run) override;
  void on_step(const StepMetrics& step) override;
  void on_eval(const EvalMetrics& eval) override;
  void on_save(const SaveMetrics& save) override;
  void on_end() override;

 private:
  std::vector<std::unique_ptr<MetricsSink>> sinks_;
};

/// Makes a sink that survives failures of a log. After the run has started, a base::Error of `sink` (such as a full
/// disk) does not end training; the first such error calls `warn`. Each record is still passed on, so the log continues
/// when there is room again. Errors of on_start() are not caught, because a run must fail before step 0 if its
/// directory is not writable.
std::unique_ptr<MetricsSink> tolerate_failures(std::unique_ptr<MetricsSink> sink,
                                               std::function<void(const std::string&)> warn);

}  // namespace hexad::telemetry
