#include "parallel/dp/gradient_buckets.h"

#include <algorithm>

namespace hexad::dp {

GradientBuckets::GradientBuckets(const BucketPlan& plan) : plan_(plan) {
  states_.reserve(plan.buckets().size());  // parameters refer to their states
  for (const Bucket& bucket : plan.buckets()) {
    State& s = states_.emplace_back(State{.bucket = &bucket,
                                          .memory = {},
                                          .piece = {},
                                          .given = std::vector<Given>(bucket.entries.size()),
                                          .reductions = {}});
    if (keeps_all(s)) {
      s.memory = Tensor::empty({bucket.elements}, accumulator_dtype(bucket.dtype), plan.device(), Category::gradient);
      for (const auto& e : bucket.entries) e.parameter->bind_gradient(Bucket::view(s.memory, e));
      continue;
    }
    s.piece = Tensor::empty({bucket.piece_size()}, accumulator_dtype(bucket.dtype), plan.device(), Category::gradient);
    for (const auto& e : bucket.entries) {
      e.parameter->bind_owned_gradient(bucket.share_of_piece(s.piece, e));
      e.parameter->bring_gradient([this, &s] { bring(s); });
    }
  }
}

void GradientBuckets::begin(int64_t rounds) {
  require(rounds >= 1, "[buckets] a step of ", rounds, " micro-batches");
  rounds_ = rounds;
}

// What is here passes through on its way to the owners.
void GradientBuckets::bring(State& s) {
  s.memory = Tensor::empty({s.bucket->elements}, s.piece.dtype(), plan_.device(), Category::communication);
  for (const auto& e : s.bucket->entries) e.parameter->bind_gradient(Bucket::view(s.memory, e));
}

void GradientBuckets::ready(Parameter& parameter, Stream& stream, Contribution contribution) {
  const auto [bucket, entry] = plan_.place(parameter);
  Given& given = states_[bucket].given[entry];
  require(!given.last, "[buckets] ", parameter.name(), " became ready twice in one step");
  ++given.rounds;
  given.last = contribution == Contribution::last;
  reduce_in_order(stream, false);
}

bool GradientBuckets::complete(const State& s) const {
  const bool last_round = round_ + 1 == rounds_;
  for (size_t i = 0; i < s.given.size(); ++i) {
    if (!s.bucket->entries[i].parameter->spec().contributes) continue;
    if (last_round ? !s.given[i].last : s.given[i].rounds <= round_) return false;
  }
  return true;
}

void GradientBuckets::reduce_in_order(Stream& stream, bool incomplete_too) {
  for (; round_ < rounds_; ++round_, next_ = 0)
    for (; next_ < states_.size(); ++next_) {
      State& s = states_[next_];
      if (keeps_all(s) && round_ + 1 < rounds_) continue;
      if (!incomplete_too && !complete(s)) return;
      reduce(s, stream);
    }
}

void GradientBuckets::reduce(State& s, Stream& stream) {
  const Bucket& bucket = *s.bucket;
  for (const auto& e : bucket.entries) e.parameter->gradient_to_add(stream);  // zeroes what no token touched
  if (bucket.zero == Zero::nothing) {
    s.reductions.push_back({bucket.group->all_reduce(s.memory, comm::Reduce::sum, stream), {}});
  } else if (bucket.zero == Zero::states) {
    const Tensor mine = s.memory.slice(0, bucket.piece().begin, bucket.piece().end);
    s.reductions.push_back({bucket.group->reduce_scatter(mine, s.memory, stream), {}});
  } else {
    const Tensor sum = s.first ? s.piece : Tensor::like(s.piece, Category::communication);
    s.reductions.push_back({bucket.group->reduce_scatter(sum, s.memory, stream), s.first ? Tensor{} : sum});
    s.memory = {};  // until it has been sent, the operation owns it
    for (const auto& e : bucket.entries) e.parameter->release_gradient();
    s.first = false;
  }
  settle(s, stream, false);
}

// Adds what has arrived, in order. Only finish() may wait: in the middle of a pipeline the other ranks may need this
// one to go on before they can join.
void GradientBuckets::settle(State& s, Stream& stream, bool wait) {
  while (!s.reductions.empty() && (wait || s.reductions.front().done.done())) {
    const Reduction r = std::move(s.reductions.front());
    s.reductions.pop_front();
    stream.wait(r.done);
    if (r.sum.defined()) kernels::kernels(plan_.device()).pointwise.add(stream, s.piece, s.piece, r.sum);
  }
}

void GradientBuckets::finish(Stream& stream) {
  reduce_in_order(stream, true);
  for (State& s : states_) {
    settle(s, stream, true);
    std::fill(s.given.begin(), s.given.end(), Given{});
    s.first = true;
  }
  rounds_ = 1, round_ = 0, next_ = 0;
}

}  // namespace hexad::dp
