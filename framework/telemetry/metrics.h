// Metrics of a training run, and the interface of their listeners. The caller makes sums over ranks: rank 0 alone feeds
// the sinks, and every value is that of the whole job.
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

/// Traffic of one class ("ep", "tp", ...) in one step, evaluation or save; seconds are the mean over ranks.
struct CommMetrics {
  int64_t bytes = 0;           // sent, summed over ranks
  double seconds = 0;          // in flight
  double exposed_seconds = 0;  // the part in which computation waited
};
using CommByClass = std::map<std::string, CommMetrics>;

/// The passes of the MoE layers in one step, as their schedules were predicted and as they ran: of a rank all of them
/// together, seconds, the mean over the ranks that have MoE layers.
struct ScheduleMetrics {
  double predicted_seconds = 0, measured_seconds = 0;
  std::map<std::string, double> exposed_seconds =
      {};  // measured, by collective ("dispatch.a2a"): no computation ran meanwhile
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
  double model_flops_per_second = 0;  // all ranks; counts the model's products once, recomputation not at all
  double mfu = 0;                     // share of the peak, as known when the step ended; read_metrics() corrects it
  double peak_flops_per_second = 0;   // all ranks; the highest of this start so far
  std::map<std::string, int64_t> memory_peak_bytes;  // by allocation category, the largest rank
  double aux_loss = 0;
  double z_loss = 0;
  double router_max_load = 0;   // max over mean, the worst layer
  double dropped_fraction = 0;  // of token-expert pairs, 0..1
  CommByClass comm;             // of the step alone
  /// Reads of device memory that the host waited for, by name, of rank 0 since the step before; empty on the CPU.
  std::map<std::string, int64_t> host_reads;
  int64_t skipped_steps = 0;  // cumulative: steps that changed no weights: not finite, or without targets
  /// [layer][expert]: share of the layer's token-expert pairs, each row sums to 1. A dense layer's row is empty; all of
  /// it is empty in steps between those of train.router_every.
  std::vector<std::vector<double>> expert_load;
  std::optional<ScheduleMetrics> schedule;  // of the step that was recorded
  std::optional<RankTimes> ranks;           // of a job with several
  int64_t started_after = 0;                // the start of the program that ran this step began after that one
  std::string time = {};                    // utc_time(); empty in lines of older programs
};

/// Held-out evaluation after `step`.
struct EvalMetrics {
  int64_t step = 0;
  int64_t tokens = 0;                        // predicted
  std::optional<double> loss = {};           // nats per token; none: there were no targets
  std::optional<double> bits_per_byte = {};  // of the original text; none: there was no text
  int64_t sequences = 0;                     // evaluated; 0 in lines of older programs
  int64_t of_sequences = 0;                  // in the held-out set
  double seconds = 0;
  CommByClass comm = {};
  std::string time = {};

  bool whole_set() const { return sequences == of_sequences; }
};

/// A checkpoint that was written after `step`.
struct SaveMetrics {
  int64_t step = 0;
  int64_t bytes = 0;   // of the tensors of all ranks
  double seconds = 0;  // in which training waited
  CommByClass comm = {};
  std::string time = {};
};

/// Now: "2026-11-24T03:05:07.089Z".
std::string utc_time();

/// Facts that are known before the first step.
struct RunInfo {
  std::string name = {};
  int64_t first_step = 0;  // steps already done: N when resuming from the checkpoint of step N, 0 for a new run
  int64_t total_steps = 0;
  int64_t parameters = 0;
  int64_t active_parameters = 0;  // used by one token
  int ranks = 1;
};

/// Listens to one run: on_start, then any number of on_step, on_eval and on_save in order, then on_end. Throws
/// base::Error when it cannot do its work.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepMetrics&) {}
  virtual void on_eval(const EvalMetrics&) {}
  virtual void on_save(const SaveMetrics&) {}
  virtual void on_end() {}
};

/// Passes everything to its sinks, in the order they were added.
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

/// For sinks that only keep a log: once the run has started, their base::Errors (a full disk) become one call of `warn`
/// and training goes on. Each record is still offered, so the log continues when there is room again. Errors of
/// on_start pass through: a run directory that cannot be written to must fail before step 0.
std::unique_ptr<MetricsSink> tolerate_failures(std::unique_ptr<MetricsSink> sink,
                                               std::function<void(const std::string&)> warn);

}  // namespace hexad::telemetry
