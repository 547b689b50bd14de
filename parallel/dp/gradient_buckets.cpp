#include "parallel/dp/gradient_buckets.h"

#include <algorithm>
#include <utility>

namespace hexad::dp {

using device::Category;
using namespace base;
using namespace kernels;

GradientBuckets::GradientBuckets(const BucketPlan& plan, Sums sums) : plan_(plan) {
  states_.reserve(plan.buckets().size());
  for (const Bucket& bucket : plan.buckets()) {
    if (!bucket.trainable) {
      states_.push_back(
          State{.bucket = &bucket, .dtype = bucket.dtype, .memory = {}, .piece = {}, .given = {}, .reductions = {}});
      for (const Bucket::Entry& e : bucket.entries) e.parameter->store_gradient_in(nullptr);
      continue;
    }
    if (bucket.group->size() > 1)
      bucket.group->connect(bucket.zero == Zero::nothing ? comm::Use::sums : comm::Use::shares, plan.device());
    const Dtype dtype = sums == Sums::rounded ? bucket.dtype : accumulator_dtype(bucket.dtype);
    State& s = states_.emplace_back(State{.bucket = &bucket,
                                          .dtype = dtype,
                                          .memory = {},
                                          .piece = {},
                                          .given = std::vector<Given>(bucket.entries.size()),
                                          .reductions = {}});
    const int64_t kept = keeps_all(s) ? bucket.elements : bucket.piece_size();
    (keeps_all(s) ? s.memory : s.piece) = Tensor::empty({kept}, dtype, plan.device(), Category::gradient);
    bind(s);
  }
}

void GradientBuckets::bind(State& s) {
  for (const Bucket::Entry& e : s.bucket->entries) {
    Parameter& p = *e.parameter;
    const bool stays =
        keeps_all(s) && !rounded(s);  // true if contributions are written directly to the memory of the sum
    p.store_gradient_in(stays ? nullptr : this);
    if (stays) {
      p.bind_gradient(Bucket::view(s.memory, e));
    } else if (keeps_all(s)) {
      const FlatRange owned = p.owned();
      p.bind_owned_gradient(s.memory.slice(0, e.begin + owned.begin, e.begin + owned.end));
    } else {
      p.bind_owned_gradient(s.bucket->share_of_piece(s.piece, e));
    }
  }
}

// Binds memory for the gradient of `p`: separate memory, in which several contributions are summed, if sums are
// rounded. Otherwise, binds the gradients of all parameters of the bucket to the memory of the bucket.
void GradientBuckets::allocate_gradient(Parameter& p) {
  State& s = states_[plan_.place(p).bucket];
  if (rounded(s))
    return p.bind_gradient(
        Tensor::empty(p.shape(), accumulator_dtype(p.dtype()), plan_.device(), Category::communication));
  allocate(s);
  for (const auto& e : s.bucket->entries) e.parameter->bind_gradient(Bucket::view(s.memory, e));
}

// Returns the memory for the only contribution of a micro-batch to the gradient of `p`. The matrix product that writes
// the contribution also rounds it if sums are rounded.
GradientTarget GradientBuckets::only_contribution(Parameter& p) {
  const auto [bucket, entry] = plan_.place(p);
  State& s = states_[bucket];
  if (!rounded(s)) return {p.gradient(), p.next_write()};
  allocate(s);
  const Write write = std::exchange(s.given[entry].written, true) ? Write::add : Write::replace;
  return {Bucket::view(s.memory, s.bucket->entries[entry]), write};
}

void GradientBuckets::begin(int64_t rounds) {
  require(rounds >= 1, "[buckets] a step has ", rounds, " micro-batches; expected at least 1");
  rounds_ = rounds;
}

void GradientBuckets::bound_two_stage_reductions(int64_t most) {
  require(most >= 0, "[buckets] at most ", most,
          " reductions of a two-stage bucket may be in flight; expected at least 0");
  most_of_two_stages_ = most;
}

// Allocates the memory of the whole bucket if it does not exist yet. Gradients are sent to their owners from this
// memory.
void GradientBuckets::allocate(State& s) {
  if (s.memory.defined()) return;
  if (!keeps_all(s) && s.bucket->two_stages) {
    Stream& stream = plan_.device().context().compute();
    settle(s, stream, false);
    bound(s, 1, stream);
  }
  s.memory = Tensor::empty({s.bucket->elements}, s.dtype, plan_.device(), Category::communication);
}

// Adds the parameter's contributions since the previous call to the memory of the bucket, and rounds the sum.
void GradientBuckets::fold(State& s, size_t entry, Stream& stream) {
  const Bucket::Entry& e = s.bucket->entries[entry];
  if (!e.parameter->has_gradient()) return;
  const auto& k = kernels::kernels(plan_.device()).pointwise;
  allocate(s);
  const Tensor& more = e.parameter->gradient();
  const Tensor sum = Bucket::view(s.memory, e);
  if (std::exchange(s.given[entry].written, true)) k.axpy(stream, more, 1, sum);
  k.copy(stream, sum, more);
  e.parameter->release_gradient();
}

void GradientBuckets::ready(Parameter& parameter, Stream& stream, Contribution contribution) {
  if (!parameter.trainable()) return parameter.release_gradient();
  const auto [bucket, entry] = plan_.place(parameter);
  Given& given = states_[bucket].given[entry];
  require(!given.last, "[buckets] the gradient of ", parameter.name(),
          " has a contribution after the one that was reported as its last of this step; expected no later one");
  if (rounded(states_[bucket])) fold(states_[bucket], entry, stream);
  ++given.rounds;
  given.last = contribution == Contribution::last;
  reduce_in_order(stream, false);
}

bool GradientBuckets::complete(const State& s) const {
  const bool last_round = round_ + 1 == rounds_;
  for (const Given& given : s.given)
    if (last_round ? !given.last : given.rounds <= round_) return false;
  return true;
}

void GradientBuckets::reduce_in_order(Stream& stream, bool incomplete_too) {
  for (; round_ < rounds_; ++round_, next_ = 0)
    for (; next_ < states_.size(); ++next_) {
      State& s = states_[next_];
      if (!s.bucket->trainable) continue;
      if (keeps_all(s) && round_ + 1 < rounds_) continue;
      if (!incomplete_too && !complete(s)) return;
      reduce(s, stream);
    }
}

void GradientBuckets::reduce(State& s, Stream& stream) {
  const Bucket& bucket = *s.bucket;
  // Waits for the previous reduction under Zero::gradients and Zero::weights. This cannot cause a deadlock, because all
  // ranks of a stage do the same work and therefore join the previous reduction. For a bucket of two stages, waiting
  // could cause a deadlock: a rank of the other stage may need this rank to continue first.
  if (!keeps_all(s) && !bucket.two_stages)
    if (State* last = std::exchange(in_flight_, &s)) settle(*last, stream, true);
  for (size_t i = 0; i < bucket.entries.size(); ++i) {
    Parameter& p = *bucket.entries[i].parameter;
    if (s.given[i].written && !p.has_gradient()) continue;
    p.gradient_to_add(stream);  // zeroes a gradient without contributions
    if (rounded(s)) fold(s, i, stream);
  }
  if (bucket.zero == Zero::nothing) {
    s.reductions.push_back({bucket.group->all_reduce(s.memory, comm::Reduce::sum, stream), {}});
  } else if (bucket.zero == Zero::states) {
    const Tensor mine = s.memory.slice(0, bucket.piece().begin, bucket.piece().end);
    s.reductions.push_back({bucket.group->reduce_scatter(mine, s.memory, stream), {}});
  } else {
    const Tensor sum = s.first ? s.piece : Tensor::like(s.piece, Category::communication);
    s.reductions.push_back({bucket.group->reduce_scatter(sum, s.memory, stream), s.first ? Tensor{} : sum});
    s.memory = {};  // the operation owns the memory until the data has been sent
    for (const auto& e : bucket.entries) e.parameter->release_gradient();
    for (Given& g : s.given) g.written = false;
    s.first = false;
  }
  bound(s, 0, stream);
  settle(s, stream, false);
}

// Makes the stream wait for the earliest reductions of a two-stage bucket. Then at most most_of_two_stages_ - `filled`
// reductions are in flight, or none if this number is negative. `filled` is 1 before the bucket is filled again,
// otherwise 0.
void GradientBuckets::bound(State& s, int64_t filled, Stream& stream) {
  if (keeps_all(s) || !s.bucket->two_stages || !most_of_two_stages_) return;
  const int64_t most = std::max<int64_t>(0, *most_of_two_stages_ - filled);
  while (std::ssize(s.reductions) > most) settle_first(s, stream);
}

// Adds the results that have arrived to the owned piece, in the order of the reductions. Makes the stream wait for all
// reductions of the bucket, and adds all their results, if `wait` is true.
void GradientBuckets::settle(State& s, Stream& stream, bool wait) {
  while (!s.reductions.empty() && (wait || s.reductions.front().done.done())) settle_first(s, stream);
}

// Makes the stream wait for the earliest reduction of the bucket, and adds its result.
void GradientBuckets::settle_first(State& s, Stream& stream) {
  const Reduction r = std::move(s.reductions.front());
  s.reductions.pop_front();
  stream.wait(r.done);
  if (r.sum.defined()) kernels::kernels(plan_.device()).pointwise.add(stream, s.piece, s.piece, r.sum);
}

void GradientBuckets::finish(Stream& stream) {
  reduce_in_order(stream, true);
  for (State& s : states_) {
    settle(s, stream, true);
    std::fill(s.given.begin(), s.given.end(), Given{});
    s.first = true;
  }
  rounds_ = 1, round_ = 0, next_ = 0;
  in_flight_ = nullptr;
}

}  // namespace hexad::dp
