// Gradients in data parallelism. During backward, they are summed bucket by bucket over the ranks that have the same
// parameters.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "parallel/dp/bucket_plan.h"
#include "parallel/dp/dp_names.h"

namespace hexad::dp {

/// Position of a contribution to a parameter's gradient within a step.
/// - more: other contributions follow.
/// - last: no contribution follows.
enum class Contribution : uint8_t { more, last };

/// Dtype in which gradients are stored and summed over ranks.
/// - accumulator: the accumulator dtype.
/// - rounded: the dtype of the weights. With bf16, memory and traffic are half as large. Within a micro-batch, a
///   gradient is still summed in the accumulator dtype and rounded once. A matrix product also rounds the contribution
///   that it writes if this is the only contribution of the micro-batch. Several contributions are first summed in
///   separate memory.
enum class Sums : uint8_t { accumulator, rounded };

/// Owner of the gradient memory of a bucket plan. Frozen parameters have no gradients. All ranks reduce the buckets in
/// the same order, even if the buckets are filled in another order:
///
/// - Zero::nothing: all-reduces each bucket once per step, after the last contributions.
/// - Zero::states: reduce-scatters each bucket once per step; each owner gets its piece of the sum.
/// - Zero::gradients, Zero::weights: a bucket has memory from the first contribution of a round (a micro-batch) until
///   its reduction. A reduction waits for the previous reduction, so that one bucket is filled while another is sent.
///   Exception: the reduction of a two-stage bucket waits for no other reduction, and no other reduction waits for it.
///   The memory of the bucket is freed once both stages have begun the reduction. The owners keep the sum of their
///   pieces. Gradients are therefore summed first over ranks and then over micro-batches. With several micro-batches,
///   sums are thus rounded differently than at the other levels.
class GradientBuckets final : public autograd::GradientStorage {
 public:
  /// Makes the parameters of `plan` store their gradients in these buckets from now on. The bucket plan must outlive
  /// the buckets. Collective, because the ranks connect (ProcessGroup::connect()).
  explicit GradientBuckets(const BucketPlan& plan, Sums sums = Sums::accumulator);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Begins a step in which every parameter gets contributions from `rounds` micro-batches. Without this call, a step
  /// has one micro-batch.
  void begin(int64_t rounds);
  /// Bounds the number of reductions of a two-stage bucket that are in flight: waits for the earliest reductions. A
  /// bucket that is being filled also counts as a reduction if `most` is at least 1. Must be called only if other ranks
  /// are imagined (comm::ImaginedGroup): real ranks could wait forever, because the other stage may begin a reduction
  /// later, in finish(). Without this call, there is no bound. Throws std::logic_error if `most` is negative.
  void bound_two_stage_reductions(int64_t most);
  /// Reports that a micro-batch's contribution to a parameter is complete. Starts the reductions of the next buckets in
  /// order, until a bucket is incomplete.
  void ready(Parameter& parameter, Stream& stream, Contribution contribution = Contribution::last);
  /// Reduces the remaining buckets, for example buckets of parameters that were not used in this step. Makes `stream`
  /// wait for all reductions, after which the owned gradients are complete. Prepares for the next step. Gradients
  /// without contributions are zero, but all ranks must take part in their reductions.
  void finish(Stream& stream);
  size_t count() const { return states_.size(); }

  void allocate_gradient(Parameter& p) override;
  GradientTarget only_contribution(Parameter& p) override;

 private:
  struct Reduction {
    device::Event done;
    Tensor sum;  // sum to be added to the owned piece; undefined if the reduction writes directly to the piece
  };
  struct Given {
    int64_t rounds = 0;
    bool last = false;
    // True if the bucket's memory has a contribution to the parameter's gradient from this step or, under
    // Zero::gradients and Zero::weights, from this round. Used only for rounded sums.
    bool written = false;
  };
  struct State {
    const Bucket* bucket;
    Dtype dtype;
    Tensor memory;  // memory of the whole bucket
    Tensor piece;   // memory of this rank's piece; defined only with Zero::gradients and Zero::weights
    std::vector<Given> given;
    bool first = true;  // true in the first round of the step
    std::deque<Reduction> reductions;
  };
  bool keeps_all(const State& s) const { return s.bucket->zero < Zero::gradients; }
  bool rounded(const State& s) const { return s.dtype != accumulator_dtype(s.bucket->dtype); }
  bool complete(const State& s) const;
  void bind(State& s);
  void allocate(State& s);
  void fold(State& s, size_t entry, Stream& stream);
  void reduce_in_order(Stream& stream, bool incomplete_too);
  void reduce(State& s, Stream& stream);
  void settle(State& s, Stream& stream, bool wait);
  void settle_first(State& s, Stream& stream);
  void bound(State& s, int64_t filled, Stream& stream);

  const BucketPlan& plan_;
  std::vector<State> states_;
  int64_t rounds_ = 1, round_ = 0;
  std::optional<int64_t> most_of_two_stages_;  // argument of bound_two_stage_reductions(); nullopt: no bound
  size_t next_ = 0;                            // index of the bucket that is reduced next in this round
  State* in_flight_ = nullptr;                 // bucket whose memory the latest reduction sends; null: none
};

}  // namespace hexad::dp
