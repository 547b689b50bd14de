// Data parallelism: during backward, gradients are summed bucket by bucket over the ranks that have the same
// parameters.
#pragma once

#include <deque>
#include <vector>

#include "parallel/dp/bucket_plan.h"

namespace hexad::dp {

using autograd::GradientTarget;
using base::accumulator_dtype;
using device::Stream;

/// States whether the gradient of a parameter gets more contributions in this step.
enum class Contribution : uint8_t { more, last };

/// Dtype in which gradients are stored and summed over ranks: the accumulator dtype, or that of the weights (bf16,
/// which halves memory and traffic). Within a micro-batch, a gradient is always summed in the accumulator dtype and
/// rounded once. A single contribution is rounded by the product that writes it. Several contributions are summed in
/// separate memory, and then rounded.
enum class Sums : uint8_t { accumulator, rounded };

/// Owner of the memory of all gradients. All ranks sum the buckets in the same order, also if the buckets are filled in
/// another order:
///
/// - Zero::nothing: all-reduced once per step, after the last contributions.
/// - Zero::states: reduced once per step; each owner gets its piece of the sum.
/// - Zero::gradients, Zero::weights: the memory of a bucket exists from the first contribution of a round (a
///   micro-batch) until its reduction. A reduction waits for the previous one, so that one bucket is filled while
///   another is sent. The owners keep the sum of their pieces. Therefore gradients are summed first over ranks and then
///   over micro-batches, which rounds differently from the other kinds if there is more than one micro-batch.
class GradientBuckets final : public autograd::ParameterStorage {
 public:
  /// Makes the plan's parameters store their gradients in these buckets instead of any earlier ones. The plan must
  /// outlive the buckets.
  explicit GradientBuckets(const BucketPlan& plan, Sums sums = Sums::accumulator);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Begins a step in which every parameter gets contributions from `rounds` micro-batches. Without this call, a step
  /// has one micro-batch.
  void begin(int64_t rounds);
  /// Reports that the contribution of a micro-batch to a parameter is complete. May start the reduction of its bucket.
  void ready(Parameter& parameter, Stream& stream, Contribution contribution = Contribution::last);
  /// Waits for all reductions, so that the owned gradients are complete, and prepares for the next step. Buckets of
  /// unused parameters, which were never reported ready, are reduced as zeros, so that all ranks participate.
  void finish(Stream& stream);
  size_t count() const { return states_.size(); }

  void allocate_gradient(Parameter& p) override;
  GradientTarget only_contribution(Parameter& p) override;

 private:
  struct Reduction {
    device::Event done;
    Tensor sum;  // what has not been added to the owned piece yet; undefined if it was reduced in place
  };
  struct Given {
    int64_t rounds = 0;
    bool last = false;
    bool written = false;  // for rounded sums: true if the bucket's memory contains a contribution of this round
  };
  struct State {
    const Bucket* bucket;
    Dtype dtype;
    Tensor memory;  // memory of the whole bucket
    Tensor piece;   // memory of this rank's piece, if the rest of the bucket is not always in memory
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

  const BucketPlan& plan_;
  std::vector<State> states_;
  int64_t rounds_ = 1, round_ = 0;
  size_t next_ = 0;             // index of the bucket that is reduced next in this round
  State* in_flight_ = nullptr;  // the bucket whose memory the latest reduction sends
};

}  // namespace hexad::dp
