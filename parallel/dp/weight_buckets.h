// The weights of replicas: whole at all times, or whole only while they are needed (ZeRO-3).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "parallel/dp/bucket_plan.h"

namespace hexad::dp {

using autograd::GatheredWeights;
using device::Stream;

/// Owns the memory of all weights of which this rank updates only a share:
///
/// - Zero::states, Zero::gradients: weights are stored flat in buckets. After an update the owners' new weights are
///   gathered into the buckets.
/// - Zero::weights: this rank keeps its piece of a bucket.
///   - A parameter's use gathers its unit's buckets, begins to gather the next unit, and frees all other units that
///     are not held. So two units and all held units are in memory at a time. The next unit is the unit that followed
///     the same two units last time.
///   - Only the order of uses decides which unit is gathered. So ranks of a group must use and hold parameters in the
///     same order, and release them between the same uses. Code whose reads depend on tokens, such as on the experts
///     that have rows, must hold the weights.
/// - The next layers wait for weights, while gradients have time until the end of the step. So weights have a separate
///   communicator, with priority over the communicator of the gradients of the same ranks.
class WeightBuckets final : public autograd::ParameterStorage {
 public:
  /// Binds the weights of the plan's parameters to these buckets. The plan outlives the buckets. Collective if weights
  /// are gathered for use.
  explicit WeightBuckets(const BucketPlan& plan);
  WeightBuckets(const WeightBuckets&) = delete;
  WeightBuckets& operator=(const WeightBuckets&) = delete;

  /// Draws the initial values of all parameters of the plan. Buckets that do not stay in memory are drawn one at a
  /// time.
  void initialize(uint64_t seed);
  /// Calls `change`, which may write owned weights, then updates all other copies. Collective. No weights may be held
  /// during the call.
  void update(Stream& stream, const std::function<void()>& change);

  /// Gathers the unit of `p`, as above, for parameters that do not stay in memory.
  GatheredWeights gather_weights(Parameter& p, Stream& stream) override;

 private:
  struct State {
    const Bucket* bucket;
    const comm::ProcessGroup* group;  // group that gathers
    Tensor memory;                    // memory of the whole bucket
    Tensor piece;                     // memory of this rank's piece, if the rest does not stay in memory
    device::Event gathered;
    std::weak_ptr<const void> holders{};  // shared by the holders of the parameters of the bucket
  };
  static constexpr size_t none = ~size_t{0};  // no unit

  /// True if this rank keeps all of the bucket's weights at all times.
  bool keeps_all(const State& s) const { return s.bucket->zero != Zero::nothing && !gathers(s); }
  /// True if the bucket's weights are gathered for use.
  bool gathers(const State& s) const { return s.bucket->zero == Zero::weights; }
  template <class F>
  void for_each_of(size_t unit, F&& f);
  void gather(size_t unit, Stream& stream);
  /// Frees the weights of a bucket, whose gather may still run. Later work of `stream` runs after the gather, which
  /// reads this rank's piece.
  void release(State& s, Stream& stream);
  void move_on(size_t unit);

  const BucketPlan& plan_;
  /// Communicator for the gathers of a group's buckets.
  struct Gatherer {
    const comm::ProcessGroup* of;
    std::unique_ptr<comm::ProcessGroup> group;
  };
  // In the order of creation, which is the same on all ranks, because ranks also end a communicator together.
  std::vector<Gatherer> gatherers_;
  std::vector<State> states_;                             // by bucket
  size_t before_ = none, current_ = none;                 // the last two units used
  std::map<std::pair<size_t, size_t>, size_t> followed_;  // next unit, by the previous two units
};

}  // namespace hexad::dp
