// Passes of micro-batches that a meta device records once and then repeats in its log, because they are equal.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "framework/device/meta/issue_part.h"
#include "parallel/pp/tape_stages.h"

namespace hexad::pp {

/// Recorded passes of a rank's chunks. The first step of the rank, with `recorded_micro_batches` micro-batches, records
/// the passes of the micro-batch in the middle. In later steps, the log repeats these passes for all micro-batches
/// except the first and the last, which run: the first contributions to a gradient replace its old value, and the last
/// ones start its reduction.
///
/// The log of a step with repeated passes equals that of the whole step if the passes of all middle micro-batches make
/// the same calls to the log. This is not checked. It is not so if:
/// - passes of different micro-batches have different sizes, because the recipe chooses their experts,
/// - gradients are reduced, or weights gathered, for each micro-batch (ZeRO-2, ZeRO-3),
/// - two passes run as fibers.
///
/// All passes run in three cases:
/// - A recorded pass waits for an operation of another micro-batch.
/// - A chunk has passes of a kind that was not recorded. dualpipe_v, for example, delays weight gradients only in some
///   passes.
/// - Micro-batches do not begin and end in order: in some chunk, another micro-batch than 0 comes first, or the last
///   micro-batch does not come last.
class RepeatedPasses {
 public:
  using Kind = Action::Kind;
  static constexpr int recorded_micro_batches = 3;

  /// `log` must outlive the object.
  explicit RepeatedPasses(device::IssueLog& log) : log_(log) {}

  /// Ends the recording. Later steps repeat passes.
  void end_recording() { recording_ = false; }
  /// Returns the number of passes that were repeated instead of run.
  int64_t repeated() const { return count_; }

  /// Prepares a step with the actions of this rank.
  void begin(std::span<const Action> actions, int micro_batches);
  /// True if the passes of micro-batch `micro` are repeated in the step.
  bool repeats(int micro) const { return repeats_ && is_middle(micro); }
  /// True if the passes of micro-batch `micro` are recorded in the step.
  bool records(int micro) const { return records_ && is_middle(micro); }
  /// Repeats the recorded pass for micro-batch `micro`.
  void repeat(Kind kind, int chunk, int micro);
  /// Begin and end the recording of a pass.
  void start(Kind kind, int chunk);
  void end(Kind kind, int chunk);

 private:
  using Pass = std::pair<int, Kind>;  // chunk and kind
  struct Recorded {
    device::IssuePart part;
    bool repeatable = false;
  };
  bool is_middle(int micro) const { return micro > 0 && micro < last_; }

  device::IssueLog& log_;
  bool recording_ = true;
  bool records_ = false, repeats_ = false;  // true if the step records, or repeats, the passes of middle micro-batches
  int last_ = 0;                            // last micro-batch of the step
  int64_t count_ = 0;
  std::map<Pass, Recorded> recorded_;
  // Repetitions of the passes of a chunk and a micro-batch, in order.
  std::map<std::pair<int, int>, std::vector<device::RepeatedPart>> repetitions_;
};

/// Stages that run and record passes, or repeat recorded passes. `work` and `passes` must outlive the object.
class RepeatedStages final : public StageWork {
 public:
  RepeatedStages(TapeStages& work, const Schedule& schedule, int rank, device::Device device, RepeatedPasses& passes);

  Boundary boundary(int micro) const override { return work_.boundary(micro); }
  Tensor forward(int chunk, int micro, const Tensor& input) override;
  Tensor backward(int chunk, int micro, const Tensor& doutput, Replay::Weights weights) override;
  void weights(int chunk, int micro) override;

 private:
  using Kind = Action::Kind;
  template <class F>
  Tensor pass(Kind kind, int chunk, int micro, F&& run);

  TapeStages& work_;
  const device::Device device_;
  RepeatedPasses& passes_;
};

}  // namespace hexad::pp
