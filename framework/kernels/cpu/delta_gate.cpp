#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

template <class A>
A sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}
template <class A>
A softplus(A x) {
  return std::max(x, A{0}) + std::log1p(std::exp(-std::abs(x)));
}

void check(const DeltaGateOperands& o) {
  require(o.decay.rank() == 2 && o.write.shape() == o.decay.shape(), "[delta_gate] decay is ", o.decay.shape(),
          ", write ", o.write.shape(), "; expected [T, H] for both");
  require_flat("delta_gate", "decay", o.decay, o.decay.numel());
  require_flat("delta_gate", "write", o.write, o.decay.numel());
  require_flat("delta_gate", "log_rate", o.log_rate, o.decay.dim(1));
  require_flat("delta_gate", "shift", o.shift, o.decay.dim(1));
}

void forward(Stream& stream, const Tensor& log_decay, const Tensor& strength, const DeltaGateOperands& o) {
  stream.run([=] {
    check(o);
    require_flat("delta_gate", "log_decay", log_decay, o.decay.numel());
    require_flat("delta_gate", "strength", strength, o.decay.numel());
    with_dtype<float, bf16, double>("delta_gate", o.decay.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const T *decay = o.decay.data<T>(), *write = o.write.data<T>();
      const A *log_rate = o.log_rate.data<A>(), *shift = o.shift.data<A>();
      A *g = log_decay.data<A>(), *b = strength.data<A>();
      const int64_t heads = o.decay.dim(1);
      parallel_elements(o.decay.numel(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t h = i % heads;
          g[i] = -std::exp(log_rate[h]) * softplus(static_cast<A>(decay[i]) + shift[h]);
          b[i] = sigmoid(static_cast<A>(write[i]));
        }
      });
    });
  });
}

void backward(Stream& stream, const DeltaGateGradients& g, const Tensor& dlog_decay, const Tensor& dstrength,
              const DeltaGateOperands& o) {
  stream.run([=] {
    check(o);
    for (const auto& [name, t] : {std::pair{"ddecay", g.ddecay},
                                  {"dwrite", g.dwrite},
                                  {"rates", g.rates},
                                  {"shifts", g.shifts},
                                  {"dlog_decay", dlog_decay},
                                  {"dstrength", dstrength}})
      require_flat("delta_gate", name, t, o.decay.numel());
    with_dtype<float, bf16, double>("delta_gate", o.decay.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const T *decay = o.decay.data<T>(), *write = o.write.data<T>();
      const A *log_rate = o.log_rate.data<A>(), *shift = o.shift.data<A>();
      const A *dg = dlog_decay.data<A>(), *db = dstrength.data<A>();
      T *ddecay = g.ddecay.data<T>(), *dwrite = g.dwrite.data<T>();
      A *rates = g.rates.data<A>(), *shifts = g.shifts.data<A>();
      const int64_t heads = o.decay.dim(1);
      parallel_elements(o.decay.numel(), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t h = i % heads;
          const A x = static_cast<A>(decay[i]) + shift[h], w = static_cast<A>(write[i]), rate = std::exp(log_rate[h]);
          shifts[i] = -dg[i] * rate * sigmoid(x);
          rates[i] = -dg[i] * rate * softplus(x);
          ddecay[i] = static_cast<T>(shifts[i]);
          dwrite[i] = static_cast<T>(db[i] * sigmoid(w) * sigmoid(-w));
        }
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const DeltaGateKernels DeltaGateKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
