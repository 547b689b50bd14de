// Data parallelism: gradients are summed over the ranks that hold a copy, bucket by bucket, during backward.
#pragma once

#include <deque>
#include <vector>

#include "parallel/dp/bucket_plan.h"

namespace hexad::dp {

using autograd::GradientTarget;
using base::accumulator_dtype;
using device::Stream;

/// Marks whether a parameter's gradient gets more contributions in the step.
enum class Contribution : uint8_t { more, last };

/// Dtype in which gradients are kept and summed over ranks: the accumulator's, or that of the weights (bf16: half the
/// memory and traffic). Within a micro-batch a gradient is always summed in the accumulator's dtype and rounded once.
/// The matmul that writes the gradient rounds it. If several contributions are expected, they are summed in separate
/// memory and then rounded.
enum class Sums : uint8_t { accumulator, rounded };

/// Owns the memory of all gradients. All ranks sum the buckets in one order, even if they are filled in another order:
///
/// - Zero::nothing: all-reduced once a step, after the last contributions.
/// - Zero::states: reduced onto their owners once a step.
/// - Zero::gradients, Zero::weights: a bucket's memory exists from the first contribution of a round (a micro-batch) to
///   its reduction. A reduction waits for the previous reduction: one bucket is filled while another is sent. Owners
///   keep the sum. So sums over ranks are taken before sums over micro-batches. That rounds differently from the other
///   kinds unless there is one micro-batch.
class GradientBuckets final : public autograd::ParameterStorage {
 public:
  /// Binds the gradients of the plan's parameters to these buckets, in place of earlier buckets. The plan outlives the
  /// buckets.
  explicit GradientBuckets(const BucketPlan& plan, Sums sums = Sums::accumulator);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  /// Begins a step in which every parameter gets contributions from `rounds` micro-batches. Without a call, a step has
  /// one micro-batch.
  void begin(int64_t rounds);
  /// Reports that a micro-batch's contribution to a parameter is complete. May start the reduction of its bucket.
  void ready(Parameter& parameter, Stream& stream, Contribution contribution = Contribution::last);
  /// Waits for all reductions, after which owned gradients are complete, and prepares for the next step. Buckets of
  /// unused parameters, which never became ready, are reduced as zeros, so that all ranks take part.
  void finish(Stream& stream);
  size_t count() const { return states_.size(); }

  void allocate_gradient(Parameter& p) override;
  GradientTarget only_contribution(Parameter& p) override;

 private:
  struct Reduction {
    device::Event done;
    Tensor sum;  // part not yet added to the owned piece; undefined if it was reduced in place
  };
  struct Given {
    int64_t rounds = 0;
    bool last = false;
    bool written = false;  // rounded sums: the bucket's memory holds a contribution of this round
  };
  struct State {
    const Bucket* bucket;
    Dtype dtype;
    Tensor memory;  // memory of the whole bucket
    Tensor piece;   // memory of this rank's piece, if the rest of the bucket does not stay in memory
    std::vector<Given> given;
    bool first = true;  // true in the first of the step's rounds
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
  size_t next_ = 0;             // the bucket to be reduced next in this round
  State* in_flight_ = nullptr;  // the bucket whose memory the last reduction sends
};

}  // namespace hexad::dp
