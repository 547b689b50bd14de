// The weights of replicas: whole everywhere, or whole while they are needed (ZeRO-3).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "parallel/dp/bucket_plan.h"

namespace hexad::dp {

using autograd::GatheredWeights;
using device::Stream;

/// Owns the memory of all weights of which only a share is updated here:
///
/// - Zero::states, Zero::gradients: weights lie flat in buckets. After an update the owners' new weights are gathered
///   into these.
/// - Zero::weights: this rank keeps its piece of a bucket.
///   - A parameter's use gathers its unit's buckets, begins to gather the next unit, and frees all other units that
///     nobody holds. So two units are in memory at a time, and those held. The next unit is the one that followed last
///     time after the same two units.
///   - What is gathered follows from the order of uses alone. So ranks of a group must use and hold parameters in the
///     same order, and let go of them between the same uses. What depends on tokens, such as which expert has rows,
///     reads weights that are held.
///   - The next layers wait for weights, while gradients have time until the end of the step. So weights have a
///     communicator of their own, with priority over that of the gradients of the same ranks.
class WeightBuckets final : public autograd::ParameterStorage {
 public:
  /// The plan outlives the buckets. Collective where weights are gathered for use.
  explicit WeightBuckets(const BucketPlan& plan);
  WeightBuckets(const WeightBuckets&) = delete;
  WeightBuckets& operator=(const WeightBuckets&) = delete;

  /// Draws the initial values of all parameters of the plan, one bucket at a time where they do not stay.
  void initialize(uint64_t seed);
  /// Calls `change`, which may write owned weights, then updates all other copies. Collective. Nobody may hold weights.
  void update(Stream& stream, const std::function<void()>& change);

  /// Gathers the unit of `p`, as above. For parameters that do not stay.
  GatheredWeights gather_weights(Parameter& p, Stream& stream) override;

 private:
  struct State {
    const Bucket* bucket;
    const comm::ProcessGroup* group;  // that gathers
    Tensor memory;                    // of the whole bucket
    Tensor piece;                     // of what this rank owns, where the rest does not stay
    device::Event gathered;
    std::weak_ptr<const void> holders{};  // of a parameter in it
  };
  static constexpr size_t none = ~size_t{0};  // no unit

  /// True if the bucket's weights lie here, all the time.
  bool keeps_all(const State& s) const { return s.bucket->zero != Zero::nothing && !gathers(s); }
  /// True if the bucket's weights are gathered for use.
  bool gathers(const State& s) const { return s.bucket->zero == Zero::weights; }
  template <class F>
  void for_each_of(size_t unit, F&& f);
  void gather(size_t unit, Stream& stream);
  void release(State& s);
  void move_on(size_t unit);

  const BucketPlan& plan_;
  std::map<const comm::ProcessGroup*, std::unique_ptr<comm::ProcessGroup>> gatherers_;  // by the bucket's group
  std::vector<State> states_;                                                           // by bucket
  size_t before_ = none, current_ = none;                                               // units used last
  std::map<std::pair<size_t, size_t>, size_t> followed_;                                // by the two units before
};

}  // namespace hexad::dp
