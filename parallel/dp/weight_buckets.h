// Storage of weights in data parallelism: always complete, or gathered only while they are needed (ZeRO-3).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "parallel/dp/bucket_plan.h"
#include "parallel/dp/dp_names.h"
#include "parallel/dp/unit_order.h"

namespace hexad::dp {

/// Point from which work on a stream may read the weights that an update gathers.
/// - now: when the update has returned.
/// - at_use: after HeldWeight::on() or WeightBuckets::complete(), which make the stream wait.
enum class Arrival : uint8_t { now, at_use };

/// Owner of the memory of all weights of which this rank updates only a shard:
///
/// - Zero::states, Zero::gradients: weights are stored flat in buckets. After an update, the new weights of the owners
///   are gathered into the buckets, in the order in which a forward uses them. With Arrival::at_use, a use waits only
///   for the bucket of its parameter. The gathers of later layers then overlap the computation of earlier layers. After
///   update_beside(), a use waits only for the update of its own bucket, at every level and without ZeRO.
/// - Zero::weights: this rank stores only its piece of each bucket.
///   - A use of a parameter gathers the buckets of its unit and begins to gather the next unit. It frees the buckets of
///     all other units, except held buckets. Thus two units and all held buckets are in memory at a time. The next unit
///     is predicted from the order of uses in the step before (UnitOrder).
///   - The units to gather depend only on the order of uses. Therefore the ranks of a group must use and hold
///     parameters in the same order, and release them between the same uses. Code whose reads of weights depend on
///     tokens must hold the weights. An example is code that reads only the weights of experts that have rows.
///   - The next layers wait for weights, while gradients are not needed before the end of the step. Therefore these
///     weights have a separate communicator, which has priority over the communicator of the same ranks' gradients.
class WeightBuckets final : public autograd::WeightStorage {
 public:
  /// Makes the parameters of `plan` store their weights in these buckets, except parameters of buckets with
  /// Zero::nothing. The bucket plan must outlive the buckets. Collective if any bucket has another level.
  explicit WeightBuckets(const BucketPlan& plan);
  WeightBuckets(const WeightBuckets&) = delete;
  WeightBuckets& operator=(const WeightBuckets&) = delete;

  /// Draws the initial values of all parameters of the bucket plan. Parameters whose weights are not always in memory
  /// are initialised one after the other.
  void initialize(uint64_t seed);
  /// Calls `change`, which may write the owned weights, and then gathers the new weights. Under Zero::weights, the next
  /// uses gather them instead. Collective. Under Zero::weights, no weights may be held during the call. `arrival` has
  /// an effect only if weights are always in memory. With Arrival::at_use, weights may be read before complete() only
  /// through Parameter::hold() and Parameter::use().
  void update(Stream& stream, const std::function<void()>& change, Arrival arrival = Arrival::now);
  /// Like update() with Arrival::at_use, on a second queue: `beside` first waits for the work of `stream` so far. Then
  /// calls `change` for each trainable bucket, in the order in which a forward uses the buckets. `change` may write the
  /// owned weights of the bucket on `beside`. The new weights of the bucket are then gathered. Work on `stream`
  /// continues meanwhile, and waits for a bucket only at the use of one of its weights. Exception: under Zero::weights,
  /// a use also waits for the update of the unit that it gathers ahead. Tensors that `change` reads for a bucket, such
  /// as gradients, must not be overwritten too early. Work on `stream` may overwrite them only after complete() or
  /// after a use of a weight of the bucket. Collective. The condition of update() on held weights also applies here.
  void update_beside(Stream& stream, Stream& beside, const std::function<void(const Bucket&)>& change);
  /// Makes later work on `stream` wait for the whole latest update: for all gathers and, after update_beside(), for all
  /// calls of `change`. Not collective.
  void complete(Stream& stream);

  /// Gathers the unit of `p` if the weights of `p` are not always in memory (see the class).
  GatheredWeights gather_weights(Parameter& p, Stream& stream) override;
  bool weights_are_resident(const Parameter& p) const override { return !gathers(states_[plan_.place(p).bucket]); }

 private:
  struct State {
    const Bucket* bucket;
    const comm::ProcessGroup* group;  // group over which the bucket is gathered
    Tensor memory;                    // memory of the whole bucket
    Tensor piece;                     // memory of this rank's piece; defined only if gathers() is true
    device::Event arrived;            // done when the weights in memory are up to date
    device::Event written;            // done when update_beside() has written `piece`; used only if gathers() is true
    std::weak_ptr<const void> holders{};  // expired if no parameter of the bucket is held
  };
  /// True if all of the bucket's weights are always in `memory`.
  bool keeps_all(const State& s) const { return s.bucket->zero != Zero::nothing && !gathers(s); }
  /// True if the bucket's weights are gathered at each use.
  bool gathers(const State& s) const { return s.bucket->zero == Zero::weights; }
  template <class F>
  void for_each_of(size_t unit, F&& f);
  void gather(size_t unit, Stream& stream);
  void gather_updated(State& s, Stream& stream);
  void prepare_update(Stream& stream);
  /// Frees the weights of a bucket, whose gather may still be in flight. Later work on `stream` waits for the gather,
  /// because this work may overwrite this rank's piece, which the gather reads.
  void release(State& s, Stream& stream);

  const BucketPlan& plan_;
  /// Communicator that gathers the buckets of a group.
  struct Gatherer {
    const comm::ProcessGroup* of;
    std::unique_ptr<comm::ProcessGroup> group;
  };
  // Gatherers in order of creation, which is the same on all ranks of a group. These ranks must also destroy their
  // communicators in the same order.
  std::vector<Gatherer> gatherers_;
  std::vector<State> states_;  // state of each bucket
  UnitOrder order_;
};

}  // namespace hexad::dp
