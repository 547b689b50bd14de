#include "parallel/dp/weight_buckets.h"

#include <algorithm>
#include <ranges>

namespace hexad::dp {

using device::Category;
using namespace base;

WeightBuckets::WeightBuckets(const BucketPlan& plan) : plan_(plan) {
  states_.reserve(plan.buckets().size());
  for (const Bucket& bucket : plan.buckets()) {
    State& s = states_.emplace_back(
        State{.bucket = &bucket, .group = bucket.group, .memory = {}, .piece = {}, .arrived = {}, .written = {}});
    if (keeps_all(s)) {
      bucket.group->connect(comm::Use::gathers, plan.device());
      s.memory = Tensor::empty({bucket.elements}, bucket.dtype, plan.device(), Category::parameter);
      for (const auto& e : bucket.entries) {
        e.parameter->bind_weights(Bucket::view(s.memory, e));
        e.parameter->gather_weights_by(*this);
      }
    } else if (gathers(s)) {
      // Groups are created in the order of the buckets, which is the same on all ranks of a group.
      auto gatherer = std::ranges::find(gatherers_, bucket.group, &Gatherer::of);
      if (gatherer == gatherers_.end())
        gatherer =
            gatherers_.insert(gatherer, {bucket.group, bucket.group->urgent(bucket.group->name() + ", weights")});
      gatherer->group->connect(comm::Use::gathers, plan.device());
      s.group = gatherer->group.get();
      s.piece = Tensor::empty({bucket.piece_size()}, bucket.dtype, plan.device(), Category::parameter);
      for (const auto& e : bucket.entries) {
        e.parameter->bind_owned_weights(bucket.share_of_piece(s.piece, e));
        e.parameter->gather_weights_by(*this);
      }
    }  // otherwise, the parameters allocate their own memory
  }
}

void WeightBuckets::initialize(uint64_t seed) {
  for (const Bucket& bucket : plan_.buckets())
    if (bucket.zero != Zero::weights)
      for (const auto& e : bucket.entries) e.parameter->initialize(seed);
  Stream& stream = plan_.device().context().compute();
  const auto& k = kernels::kernels(plan_.device()).pointwise;
  for (State& s : states_) {
    if (!gathers(s)) continue;
    for (const auto& e : s.bucket->entries) {
      Parameter& p = *e.parameter;
      p.bind_weights(Tensor::empty(p.shape(), p.dtype(), plan_.device(), Category::communication));
      p.initialize(seed);
      const FlatRange share = p.share();
      k.copy(stream, p.owned_weights(), p.local().reshape({p.shape().numel()}).slice(0, share.begin, share.end));
      p.release_weights();
    }
  }
}

template <class F>
void WeightBuckets::for_each_of(size_t unit, F&& f) {
  for (State& s : states_)
    if (s.bucket->unit == unit && gathers(s)) f(s);
}

void WeightBuckets::gather(size_t unit, Stream& stream) {
  for_each_of(unit, [&](State& s) {
    if (s.memory.defined()) return;
    s.memory = Tensor::empty({s.bucket->elements}, s.bucket->dtype, plan_.device(), Category::communication);
    stream.wait(s.written);
    s.arrived = s.group->all_gather(s.memory, s.piece, stream);
    for (const auto& e : s.bucket->entries) e.parameter->bind_weights(Bucket::view(s.memory, e));
  });
}

void WeightBuckets::release(State& s, Stream& stream) {
  if (!s.memory.defined()) return;
  // Waits even if the weights were not used, because the next update writes the piece that the gather reads.
  stream.wait(s.arrived);
  s.arrived = {};
  s.memory = {};
  for (const auto& e : s.bucket->entries) e.parameter->release_weights();
}

GatheredWeights WeightBuckets::gather_weights(Parameter& p, Stream& stream) {
  State& wanted = states_[plan_.place(p).bucket];
  if (!gathers(wanted)) return {.stay = {}, .arrived = wanted.arrived};
  std::shared_ptr<const void> stay = wanted.holders.lock();
  if (!stay) wanted.holders = stay = std::make_shared<char>();
  if (const size_t unit = wanted.bucket->unit; order_.current() != unit) {
    const size_t expected = order_.use(unit);
    for (State& s : states_)
      if (gathers(s) && s.bucket->unit != unit && s.bucket->unit != expected && s.holders.expired()) release(s, stream);
    gather(unit, stream);
    if (expected != UnitOrder::none) gather(expected, stream);
  }
  return {std::move(stay), wanted.arrived};
}

void WeightBuckets::complete(Stream& stream) {
  for (State& s : states_) {
    device::Event& updated = gathers(s) ? s.written : s.arrived;
    stream.wait(updated);
    updated = {};
  }
}

// Frees gathered weights, and makes `stream` wait for gathers that read the pieces that an update writes.
void WeightBuckets::prepare_update(Stream& stream) {
  order_.end_step();
  for (State& s : states_) {
    if (!gathers(s)) continue;
    require(
        s.holders.expired(), "[buckets] ", s.bucket->entries.front().parameter->name(),
        " or another parameter of its bucket is held while weights are updated; expected no HeldWeight of the bucket");
    release(s, stream);
  }
  complete(stream);
}

// Gathers the new weights of a bucket whose weights are always in memory.
void WeightBuckets::gather_updated(State& s, Stream& stream) {
  const FlatRange mine = s.bucket->piece();
  s.arrived = s.group->all_gather(s.memory, s.memory.slice(0, mine.begin, mine.end), stream);
}

// Buckets are updated and gathered in reverse order: they are in reverse order of creation, but a forward begins with
// the parameters that were created first.
void WeightBuckets::update(Stream& stream, const std::function<void()>& change, Arrival arrival) {
  prepare_update(stream);
  change();
  for (State& s : states_ | std::views::reverse)
    if (keeps_all(s)) gather_updated(s, stream);
  if (arrival == Arrival::now) complete(stream);
}

void WeightBuckets::update_beside(Stream& stream, Stream& beside, const std::function<void(const Bucket&)>& change) {
  prepare_update(stream);
  beside.wait(stream.record());
  for (State& s : states_ | std::views::reverse) {
    if (!s.bucket->trainable) continue;
    change(*s.bucket);
    if (keeps_all(s))
      gather_updated(s, beside);
    else
      (gathers(s) ? s.written : s.arrived) = beside.record();
    // Without ZeRO, parameters have their own memory. Their uses must nevertheless wait for the update.
    if (s.bucket->zero == Zero::nothing)
      for (const auto& e : s.bucket->entries) e.parameter->gather_weights_by(*this);
  }
}

}  // namespace hexad::dp
