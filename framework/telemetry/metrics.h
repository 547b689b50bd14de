// Metrics of a training run, and the interface through which they are reported. The caller combines the values of all
// ranks, so a value refers to the whole job. If a value refers to one rank, its comment names this rank. Only rank 0
// passes metrics to the sinks.
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

/// Traffic of one class ("ep", "tp", ...) during one step, evaluation or save. Seconds are means over ranks.
struct CommMetrics {
  int64_t bytes = 0;   // bytes sent, summed over ranks
  double seconds = 0;  // seconds during which at least one operation was in flight
  /// Seconds for which the rank's main thread was blocked while any thread of the rank waited for an operation of this
  /// class.
  double exposed_seconds = 0;
};
using CommByClass = std::map<std::string, CommMetrics>;

/// Predicted and measured seconds of the passes of all MoE layers in one step. Values are means over the ranks that
/// have MoE layers.
struct ScheduleMetrics {
  double predicted_seconds = 0, measured_seconds = 0;
  std::map<std::string, double> exposed_seconds =
      {};  // measured seconds without computation, by collective ("dispatch.a2a")
};

/// Schedule that a paper's algorithm advises for the MoE layers, compared with the schedule that the run chose.
struct AdviceMetrics {
  std::string adviser;
  std::string schedule = {};  // name of the advised schedule; empty if `verdict` is "none"
  std::string verdict = {};   // "right", "wrong", or "none": there is no comparison
  std::string reason = {};    // reason of the verdict "none"; empty for other verdicts
  double slower = 0;          // time of the advised schedule / time of the chosen schedule - 1
  bool measured = false;      // true if `slower` compares measured times, false if it compares predictions
};
/// Schedule that a step has chosen for the MoE layers.
struct ChoiceMetrics {
  std::string schedule;
  double measured_seconds = 0;  // median seconds of one layer over the trials; 0: there was no trial
  std::vector<AdviceMetrics> advice = {};
};

/// One optimizer step. Steps are numbered from 1.
struct StepMetrics {
  int64_t step = 0;
  int64_t tokens = 0;               // tokens since the start of the run, summed over ranks
  std::optional<double> loss = {};  // nats per target; nullopt: the global batch had no targets
  /// Mean loss of the prediction blocks; nullopt: there are no such blocks, or the global batch had no targets.
  std::optional<double> prediction_loss = {};
  double lr = 0;
  double grad_norm = 0;     // global norm before clipping
  double step_seconds = 0;  // duration on rank 0
  double tokens_per_second = 0;
  double model_flops_per_second = 0;  // summed over ranks; each product of the model is counted once, without
                                      // recomputation
  double mfu = 0;                     // fraction of the peak known at this step; read_metrics() corrects it
  double peak_flops_per_second = 0;   // train.peak_flops, or the highest rate measured so far; summed over ranks
  /// Peak bytes of each allocation category during this step, on the rank where this category has the highest peak.
  /// Excludes work between steps (evaluations, checkpoints). "total" is the peak of the sum of all categories except
  /// "offload". "held" is the peak of the memory that the allocator holds, used or unused. It may contain memory that
  /// work between steps has left unused. "held" is absent if it is not measured.
  std::map<std::string, int64_t> memory_peak_bytes;
  double aux_loss = 0;
  double z_loss = 0;
  double router_max_load = 0;   // maximum load of an expert divided by the mean load, in the worst layer
  double dropped_fraction = 0;  // fraction of token-expert pairs that were dropped, 0 .. 1
  double shadowed_experts = 0;  // number of hot experts, whose weights all ep ranks receive; mean over MoE layers,
                                // micro-batches and ranks
  CommByClass comm;             // traffic during this step only
  /// Number of copies from device memory to the host, by the name of the read (tensor/host_read.h). Counts the copies
  /// that rank 0 requested during this step. Excludes copies between steps (evaluations, checkpoints). Empty on the
  /// CPU.
  std::map<std::string, int64_t> host_reads;
  int64_t skipped_steps = 0;  // cumulative number of steps without an update, because values were not finite or there
                              // were no targets
  /// [block][expert]: the expert's fraction of the token-expert pairs of the block. Prediction blocks are last. Each
  /// row sums to 1; the row of a block without experts is empty. The whole table is empty in steps that
  /// train.router_every skips, and if the model has no experts.
  std::vector<std::vector<double>> expert_load;
  std::optional<ScheduleMetrics> schedule;   // set only if the schedule of the step was recorded
  std::optional<ChoiceMetrics> choice = {};  // set only in steps that chose or changed the schedule
  std::optional<RankTimes> ranks;            // set only for jobs with several ranks
  int64_t started_after = 0;  // last step before the newest start of the program or of a stage of training
  int64_t stage = 0;          // number of the stage of training, from 1; 0: the recipe has no stages
  std::string time = {};      // time from utc_time(); empty in lines of older programs
};

/// Evaluation on held-out data after step `step`.
struct EvalMetrics {
  int64_t step = 0;
  int64_t tokens = 0;                        // number of tokens predicted
  std::optional<double> loss = {};           // nats per token; nullopt: there were no targets
  std::optional<double> bits_per_byte = {};  // bits per byte of the original text; nullopt: there was no text
  int64_t sequences = 0;                     // number of sequences evaluated; 0 in lines of older programs
  int64_t total_sequences = 0;               // number of sequences in the held-out set
  double seconds = 0;
  CommByClass comm = {};
  std::string time = {};

  bool whole_set() const { return sequences == total_sequences; }
};

/// A checkpoint that was written after step `step`.
struct SaveMetrics {
  int64_t step = 0;
  int64_t bytes = 0;   // total bytes of the tensors of all ranks
  double seconds = 0;  // seconds for which training waited
  CommByClass comm = {};
  std::string time = {};
};

/// Returns the current time in UTC, for example "2026-11-24T03:05:07.089Z".
std::string utc_time();

/// Properties of a run that are known before its first step.
struct RunInfo {
  std::string name = {};
  int64_t first_step = 0;  // number of steps that are already done: N if the run resumes from the checkpoint of step N,
                           // 0 for a new run
  int64_t total_steps = 0;
  int64_t parameters = 0;
  int64_t active_parameters = 0;  // number of parameters that one token uses
  int ranks = 1;
};

/// Receives the metrics of a run: first on_start(), then any number of on_step(), on_eval() and on_save() in the order
/// of time, then on_end() if the run succeeds. These functions throw base::Error if they fail.
class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void on_start(const RunInfo&) {}
  virtual void on_step(const StepMetrics&) {}
  virtual void on_eval(const EvalMetrics&) {}
  virtual void on_save(const SaveMetrics&) {}
  virtual void on_end() {}
};

/// Passes every call on to its sinks, in the order in which they were added.
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

/// Makes a sink whose failures do not end training. After on_start(), a base::Error of `sink` (for example a full disk)
/// is caught, and the first error is passed to `warn`. Later records are still passed to `sink`, because a log should
/// continue when the disk has space again. Errors of on_start() are not caught, because a run whose directory is not
/// writable must fail before its first step.
std::unique_ptr<MetricsSink> tolerate_failures(std::unique_ptr<MetricsSink> sink,
                                               std::function<void(const std::string&)> warn);

/// Makes a sink that calls `check` before each call of `sink`. An error of `check` is not caught, and `sink` then
/// receives nothing.
std::unique_ptr<MetricsSink> checked(std::unique_ptr<MetricsSink> sink, std::function<void()> check);

}  // namespace hexad::telemetry
