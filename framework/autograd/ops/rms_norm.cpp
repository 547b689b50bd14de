#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;
using namespace kernels;
namespace {

// Kernels and constants of one norm op. The op saves the rows that it normalises and their inverse root mean squares.
struct RmsNorm {
  const KernelTable& k;
  Parameter& gain;
  double eps;
  double base;

  // Returns base + the weights of the gain.
  Tensor gains(Stream& s) const {
    const Tensor weights = gain.use(s);
    if (base == 0) return weights;
    const Tensor sum = Tensor::like(weights);
    k.pointwise.fill(s, sum, base);
    k.pointwise.axpy(s, sum, 1, weights);
    return sum;
  }

  struct Result {
    Tensor out, inverse_rms;
  };
  // Normalises x, or x + addend if `sum` and `addend` are defined. Writes this sum to `sum`.
  Result forward(Stream& s, const Tensor& sum, const Tensor& x, const Tensor& addend) const {
    const Tensor inverse_rms = Tensor::empty({x.numel() / x.dim(-1)}, accumulator_dtype(x.dtype()), x.device());
    const Tensor out = Tensor::like(x);
    k.rms_norm.forward(s, out, sum, inverse_rms, x, addend, gains(s), eps);
    return {out, inverse_rms};
  }

  // Sets dx, if it is defined, to dresidual + the gradient that flows through the norm. dresidual may be undefined. The
  // same kernel computes partial sums of the gain's gradient, which the weight pullback adds up.
  void backward(Backward& b, const Tensor& dx, const Tensor& dout, const Saved& saved, const Tensor& dresidual) const {
    const auto [in, inverse_rms] = saved.get<2>();
    const Tensor partials =
        Tensor::empty({k.rms_norm.partials(inverse_rms.numel()), in.dim(-1)}, inverse_rms.dtype(), in.device());
    k.rms_norm.backward(b.stream, dx, partials, dout, in, gains(b.stream), inverse_rms, dresidual);
    b.save_for_weights(save(partials));
  }

  WeightPullback weights() const {
    return {{&gain}, [norm = *this](Backward& b, const Tensor&, const Saved&) {
              const auto [partials] = b.saved_by_pullback().get<1>();
              if (partials.defined()) norm.k.bias.backward(b.stream, norm.gain.gradient_to_add(b.stream), partials);
            }};
  }

  void recompute_from_saved(Tape& tape, const Value& out) const {
    tape.recompute_from_saved(out, [norm = *this](Stream& s, const Saved& saved) {
      const auto [in, inverse_rms] = saved.get<2>();
      return norm.forward(s, {}, in, {}).out;
    });
  }
};

}  // namespace

Value rms_norm(Tape& tape, const Value& x, Parameter& gain, double eps, double base) {
  require(x.data.dim(-1) == gain.shape()[0] && x.data.dim(-1) > 0, "[rms_norm] x is ", x.shape(), " but ", gain.name(),
          " is ", gain.shape(), "; expected [..., D] and [D] with D > 0");
  const RmsNorm norm{kernels::kernels(x.device()), gain, eps, base};
  const auto [out, inverse_rms] = norm.forward(tape.stream, {}, x.data, {});
  const Value y = tape.record(
      "rms_norm", out, {x}, save(x.data, inverse_rms),
      [norm, shape = x.shape(), dtype = x.data.dtype()](Backward& b, const Tensor& dout, const Saved& s) {
        if (!b.wants(0)) return norm.backward(b, {}, dout, s, {});
        b.accumulate(0, shape, dtype,
                     [&](const Tensor& dx, const Tensor& so_far) { norm.backward(b, dx, dout, s, so_far); });
      },
      norm.weights());
  norm.recompute_from_saved(tape, y);
  return y;
}

SumAndNorm add_rms_norm(Tape& tape, const Value& x, const Value& addend, Parameter& gain, double eps, double base) {
  require(x.shape() == addend.shape() && x.data.dtype() == addend.data.dtype(), "[add_rms_norm] x is ", x.shape(), " ",
          x.data.dtype(), " but addend is ", addend.shape(), " ", addend.data.dtype(),
          "; expected the same shape and dtype");
  require(x.data.dim(-1) == gain.shape()[0] && x.data.dim(-1) > 0, "[add_rms_norm] x is ", x.shape(), " but ",
          gain.name(), " is ", gain.shape(), "; expected [..., D] and [D] with D > 0");
  const RmsNorm norm{kernels::kernels(x.device()), gain, eps, base};
  const Tensor sum = Tensor::like(x.data);
  const auto [out, inverse_rms] = norm.forward(tape.stream, sum, x.data, addend.data);
  const Value inputs[] = {x, addend};
  const std::vector<Value> values = tape.record_many(
      "add_rms_norm", {out, sum}, inputs, save(sum, inverse_rms),
      [norm](Backward& b, const Tensor& dout, const Saved& s) {
        const Tensor& dsum = b.output_gradient(1);
        Tensor dx;
        if (b.wants(0) || b.wants(1)) {
          // Uses dsum as dx in two cases: dsum is the whole gradient (dout is undefined), or no other object shares
          // dsum, so the kernel may overwrite it.
          const bool in_place = dsum.defined() && (!dout.defined() || dsum.sole_owner());
          dx = in_place ? dsum : Tensor::like(dout);
        }
        if (dout.defined())
          norm.backward(b, dx, dout, s, dsum);
        else
          b.save_for_weights(save(Tensor{}));
        b.accumulate(0, dx), b.accumulate(1, dx);
      },
      norm.weights());
  norm.recompute_from_saved(tape, values[0]);
  return {.sum = values[1], .normed = values[0]};
}

Value unit_rms_norm(Tape& tape, const Value& x, double eps) {
  require(x.data.dim(-1) > 0, "[unit_rms_norm] x is ", x.shape(), "; expected [..., D] with D > 0");
  const auto& k = kernels::kernels(x.device());
  const Tensor gain = Tensor::empty({x.data.dim(-1)}, x.data.dtype(), x.device());
  k.pointwise.fill(tape.stream, gain, 1);
  const Tensor inverse_rms =
      Tensor::empty({x.data.numel() / x.data.dim(-1)}, accumulator_dtype(x.data.dtype()), x.device());
  const Tensor out = Tensor::like(x.data);
  k.rms_norm.forward(tape.stream, out, {}, inverse_rms, x.data, {}, gain, eps);
  return tape.record("unit_rms_norm", out, {x}, save(x.data, inverse_rms, gain),
                     [&k](Backward& b, const Tensor& dout, const Saved& s) {
                       const auto [in, inverse, ones] = s.get<3>();
                       const Tensor dx = Tensor::like(in);
                       k.rms_norm.backward(b.stream, dx, {}, dout, in, ones, inverse, {});
                       b.accumulate(0, dx);
                     });
}

}  // namespace hexad::autograd
