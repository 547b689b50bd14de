#include "parallel/tp/split_norm.h"

#include <array>

namespace hexad::tp {

using namespace autograd;
using namespace base;
using namespace kernels;
namespace {

constexpr size_t operands = 2;  // queries and keys

// Norms of queries and keys. The sums of both are exchanged together, because both have one row per token.
struct SplitNorms {
  const KernelTable& k;
  std::array<Parameter*, operands> gains;
  double eps;
  const ProcessGroup& group;

  /// Returns the total number of columns on all ranks. Columns that several ranks hold are counted once for each of
  /// these ranks, as in the sums of squares.
  int64_t width(size_t i) const { return gains[i]->shape()[0] * group.size(); }

  /// Returns sums over the ranks: one row [T] per operand. write(i, row) must write this rank's addends for operand i.
  template <class F>
  Tensor sums(Stream& s, const Tensor& like, const F& write) const {
    const Tensor out = Tensor::empty({operands, like.dim(0)}, accumulator_dtype(like.dtype()), like.device(),
                                     device::Category::communication);
    for (size_t i = 0; i < operands; ++i) write(i, row(out, i));
    s.wait(group.all_reduce(out, comm::Reduce::sum, s));
    return out;
  }
  static Tensor row(const Tensor& all, size_t i) {
    const auto r = static_cast<int64_t>(i);
    return all.slice(0, r, r + 1).reshape({all.dim(1)});
  }

  /// Computes the gradients of the inputs, and partial sums of the gradients of the gains, which the weight task adds
  /// up.
  void backward(Backward& b, const Saved& saved) const {
    const auto kept = saved.get<operands + 1>();
    std::array<HeldWeight, operands> held;
    for (size_t i = operands; i-- > 0;) held[i] = gains[i]->hold(b.stream);
    const Tensor dots = sums(b.stream, kept[0], [&](size_t i, const Tensor& out) {
      const Tensor& dy = b.output_gradient(i);
      if (dy.defined())
        k.split_norm.dots(b.stream, out, dy, kept[i], held[i].on(b.stream));
      else
        k.pointwise.fill(b.stream, out, 0);
    });
    std::array<Tensor, operands> partials;
    for (size_t i = 0; i < operands; ++i) {
      const Tensor &x = kept[i], &dy = b.output_gradient(i), inverse_rms = row(kept.back(), i);
      if (!dy.defined()) continue;
      const Tensor gain = held[i].on(b.stream);
      partials[i] = Tensor::empty({k.rms_norm.partials(x.dim(0)), x.dim(1)}, inverse_rms.dtype(), x.device());
      k.rms_norm.backward(b.stream, {}, partials[i], dy, x, gain, inverse_rms, {});
      if (!b.wants(i)) continue;
      const Tensor dx = Tensor::like(x);
      k.split_norm.input_gradient(b.stream, dx, dy, x, gain, inverse_rms, row(dots, i), width(i));
      b.accumulate(i, dx);
    }
    b.save_for_weights({partials.begin(), partials.end()});
  }

  void gain_gradients(Backward& b) const {
    const auto partials = b.saved_by_pullback().get<operands>();
    for (size_t i = 0; i < operands; ++i)
      if (partials[i].defined() && gains[i]->trainable())
        k.bias.backward(b.stream, gains[i]->gradient_to_add(b.stream), partials[i]);
  }
};

void check_gain(const Value& x, const Parameter& gain) {
  require(x.data.rank() == 2 && x.data.dim(1) == gain.shape()[0], "[split_rms_norms] x is ", x.shape(), " but ",
          gain.name(), " is ", gain.shape(), "; expected [T, D] and [D]");
}

}  // namespace

NormedHeads split_rms_norms(Tape& tape, const Value& q, Parameter& q_gain, const Value& k, Parameter& k_gain,
                            double eps, const ProcessGroup& group) {
  if (group.size() == 1) {
    const Value normed_q = rms_norm(tape, q, q_gain, eps);
    return {normed_q, rms_norm(tape, k, k_gain, eps)};
  }
  check_gain(q, q_gain), check_gain(k, k_gain);
  const SplitNorms norms{kernels::kernels(q.device()), {&q_gain, &k_gain}, eps, group};
  const std::array<Value, operands> inputs{q, k};
  const Tensor squares = norms.sums(tape.stream, q.data, [&](size_t i, const Tensor& out) {
    norms.k.permute.row_dots(tape.stream, out, inputs[i].data, inputs[i].data);
  });
  const Tensor inverse_rms = Tensor::empty(squares.shape(), squares.dtype(), squares.device());
  std::vector<Tensor> outs;
  for (size_t i = 0; i < operands; ++i) {
    outs.push_back(Tensor::like(inputs[i].data));
    norms.k.split_norm.forward(tape.stream, outs[i], SplitNorms::row(inverse_rms, i), inputs[i].data,
                               SplitNorms::row(squares, i), norms.gains[i]->use(tape.stream), norms.width(i), eps);
  }
  const std::vector<Value> values = tape.record_many(
      "split_rms_norms", outs, inputs, save(q.data, k.data, inverse_rms),
      [norms](Backward& b, const Tensor&, const Saved& s) { norms.backward(b, s); },
      {{&q_gain, &k_gain}, [norms](Backward& b, const Tensor&, const Saved&) { norms.gain_gradients(b); }});
  return {values[0], values[1]};
}

}  // namespace hexad::tp
