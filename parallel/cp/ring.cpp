// Ring attention (Liu et al. 2023): in every step but the last, keys and values are sent to the next rank while this
// rank uses them.
#include <utility>
#include <vector>

#include "parallel/cp/attention_blocks.h"
#include "parallel/cp/kinds.h"
#include "parallel/cp/sequence_rows.h"

namespace hexad::cp {

using device::Category;
using namespace autograd;
using namespace base;

namespace {

// Keys and values [2, R, G, C] that travel around the ring. There are two buffers: one for the present block and one
// for the next block.
class TravellingBlock {
 public:
  TravellingBlock(const Tensor& k, const Tensor& v, const comm::ProcessGroup& group, Stream& stream)
      : group_(group), stream_(stream) {
    present_ = Tensor::empty({2, k.dim(0), k.dim(1), k.dim(2)}, k.dtype(), k.device(), Category::communication);
    next_ = Tensor::like(present_, Category::communication);
    const auto& copy = kernels::kernels(k.device()).pointwise.copy;
    copy(stream, keys(), k);
    copy(stream, values(), v);
  }
  Tensor keys() const { return part(present_, 0); }
  Tensor values() const { return part(present_, 1); }
  const Tensor& present() const { return present_; }

  /// Starts to send the present block to the next rank and to receive the next block. The present block may still be
  /// read.
  void depart() {
    sent_ = group_.send(present_, (group_.rank() + 1) % group_.size(), stream_);
    arrived_ = group_.receive(next_, (group_.rank() + group_.size() - 1) % group_.size(), stream_);
  }
  /// Waits for the next block, which becomes the present block.
  void arrive() {
    stream_.wait(sent_);
    stream_.wait(arrived_);
    std::swap(present_, next_);
  }

  /// Returns the keys (which = 0) or the values (which = 1) of a block.
  static Tensor part(const Tensor& block, int which) {
    return block.slice(0, which, which + 1).reshape({block.dim(1), block.dim(2), block.dim(3)});
  }

 private:
  const comm::ProcessGroup& group_;
  Stream& stream_;
  Tensor present_, next_;
  device::Event sent_, arrived_;
};

// Gradients of keys and values, which travel around the ring one step behind their block. The sum of the earlier ranks
// arrives while this rank computes its own contribution. The new sum is sent while this rank computes its contribution
// to the next block. A gradient reaches the owner of the block after as many steps as there are ranks.
class TravellingGradient {
 public:
  TravellingGradient(const Tensor& block, const comm::ProcessGroup& group, Stream& stream)
      : group_(group), stream_(stream), pointwise_(kernels::kernels(block.device()).pointwise) {
    mine_ = Tensor::empty(block.shape(), accumulator_dtype(block.dtype()), block.device(), Category::communication);
    leaving_ = Tensor::like(mine_, Category::communication);
    arriving_ = Tensor::like(mine_, Category::communication);
  }
  /// Zeroes dk() and dv(), in which this rank then computes its contribution to the gradient of the present block.
  void begin() { pointwise_.fill(stream_, mine_, 0); }
  Tensor dk() const { return TravellingBlock::part(mine_, 0); }
  Tensor dv() const { return TravellingBlock::part(mine_, 1); }

  /// Adds this rank's contribution to the sum that has arrived for the present block, and sends the result to the next
  /// rank. In the first step, no sum has arrived.
  void pass_on() {
    if (steps_++ > 0) {
      stream_.wait(arrived_);
      pointwise_.axpy(stream_, mine_, 1, arriving_);
      stream_.wait(left_);  // waits for the send of the previous step, whose buffer is reused
    }
    std::swap(mine_, leaving_);
    left_ = group_.send(leaving_, (group_.rank() + 1) % group_.size(), stream_);
    arrived_ = group_.receive(arriving_, (group_.rank() + group_.size() - 1) % group_.size(), stream_);
  }
  /// Waits for the gradient of this rank's own keys and values, which has travelled around the ring, and returns it:
  /// [2, R, G, C] in acc.
  Tensor come_home() {
    stream_.wait(left_);
    stream_.wait(arrived_);
    return arriving_;
  }

 private:
  const comm::ProcessGroup& group_;
  Stream& stream_;
  const kernels::PointwiseKernels& pointwise_;
  Tensor mine_, leaving_, arriving_;
  device::Event left_, arrived_;
  int steps_ = 0;
};

// Calls step(owner) for the block of each rank, beginning with this rank's own block. During each step but the last,
// the next block is in flight.
template <class Step>
void around(TravellingBlock& block, const ContextSplit& split, const Step& step) {
  for (int i = 0; i < split.ranks; ++i) {
    const bool more = i + 1 < split.ranks;
    if (more) block.depart();
    step((split.rank + split.ranks - i) % split.ranks);
    if (more) block.arrive();
  }
}

void ring_backward(Backward& b, const Tensor& dout, const Saved& saved, const ContextAttention& c) {
  auto [q, k, v, out, log_sum_exp] = saved.get<5>();
  const QueryGradient g{.dq = Tensor::empty(q.shape(), accumulator_dtype(q.dtype()), q.device()),
                        .dout = dout,
                        .out = out,
                        .log_sum_exp = log_sum_exp,
                        .q = q};
  kernels::kernels(q.device()).pointwise.fill(b.stream, g.dq, 0);
  c.sinks.backward(b, dout, out, log_sum_exp);
  TravellingBlock block(k, v, *c.group, b.stream);
  TravellingGradient gradient(block.present(), *c.group, b.stream);
  around(block, c.split, [&](int owner) {
    gradient.begin();
    add_gradients(g, gradient.dk(), gradient.dv(), block.keys(), block.values(), owner, c, b.stream);
    gradient.pass_on();
  });
  b.accumulate(0, contiguous_as(g.dq, q.dtype(), b.stream));
  const Tensor home = gradient.come_home();
  b.accumulate(1, contiguous_as(TravellingBlock::part(home, 0), k.dtype(), b.stream));
  b.accumulate(2, contiguous_as(TravellingBlock::part(home, 1), v.dtype(), b.stream));
}

}  // namespace

void connect_ring(const comm::ProcessGroup& group, device::Device device) {
  std::vector<comm::Route> routes;
  for (int rank = 0; rank < group.size(); ++rank) routes.push_back({rank, (rank + 1) % group.size()});
  group.connect_routes(routes, device);
}

Value ring_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c) {
  connect_ring(*c.group, q.data.device());
  RunningAttention running(q.data, tape.stream);
  TravellingBlock block(k.data, v.data, *c.group, tape.stream);
  around(block, c.split, [&](int owner) { running.add(q.data, block.keys(), block.values(), owner, c, tape.stream); });
  c.sinks.add(tape.stream, running.sum(), running.log_sum_exp());
  const Tensor out = contiguous_as(running.sum(), q.data.dtype(), tape.stream);
  return tape.record(
      "ring_attention", out, {q, k, v}, save(q.data, k.data, v.data, out, running.log_sum_exp()),
      [c](Backward& b, const Tensor& dout, const Saved& s) { ring_backward(b, dout, s, c); }, c.sinks.weights());
}

}  // namespace hexad::cp
