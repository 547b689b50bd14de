// Gates of the delta rule. One thread computes the gates of one head of one token.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;

template <class D>
struct Gates {
  const D *decay, *write;
  const sum_t<D>*log_rate, *shift;
  int64_t count, heads;
};

template <class A>
__device__ __forceinline__ A sigmoid_of(A x) {
  return 1 / (1 + exp(-x));
}
template <class A>
__device__ __forceinline__ A softplus_of(A x) {
  const A magnitude = x < 0 ? -x : x;
  return (x < 0 ? A(0) : x) + log1p(exp(-magnitude));
}

template <class D>
__global__ void __launch_bounds__(threads) forward_kernel(sum_t<D>* log_decay, sum_t<D>* strength, Gates<D> o) {
  using A = sum_t<D>;
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x, h = i % o.heads;
  if (i >= o.count) return;
  log_decay[i] = -exp(o.log_rate[h]) * softplus_of(to<A>(o.decay[i]) + o.shift[h]);
  strength[i] = sigmoid_of(to<A>(o.write[i]));
}

template <class D>
struct Gradients {
  D *ddecay, *dwrite;
  sum_t<D>*rates, *shifts;
  const sum_t<D>*dlog_decay, *dstrength;
};

template <class D>
__global__ void __launch_bounds__(threads) backward_kernel(Gradients<D> g, Gates<D> o) {
  using A = sum_t<D>;
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x, h = i % o.heads;
  if (i >= o.count) return;
  const A x = to<A>(o.decay[i]) + o.shift[h], w = to<A>(o.write[i]), rate = exp(o.log_rate[h]);
  const A dx = -g.dlog_decay[i] * rate * sigmoid_of(x);
  g.shifts[i] = dx;
  g.rates[i] = -g.dlog_decay[i] * rate * softplus_of(x);
  g.ddecay[i] = to<D>(dx);
  g.dwrite[i] = to<D>(g.dstrength[i] * sigmoid_of(w) * sigmoid_of(-w));
}

template <class T>
Gates<device_t<T>> gates_of(const DeltaGateOperands& o) {
  using A = accumulator_t<T>;
  require(o.decay.rank() == 2 && o.write.shape() == o.decay.shape(), "[delta_gate] decay is ", o.decay.shape(),
          ", write ", o.write.shape(), "; expected [T, H] for both");
  require_flat("delta_gate", "decay", o.decay, o.decay.numel());
  require_flat("delta_gate", "write", o.write, o.decay.numel());
  require_flat("delta_gate", "log_rate", o.log_rate, o.decay.dim(1));
  require_flat("delta_gate", "shift", o.shift, o.decay.dim(1));
  return {.decay = pointer<T>(o.decay),
          .write = pointer<T>(o.write),
          .log_rate = pointer<A>(o.log_rate),
          .shift = pointer<A>(o.shift),
          .count = o.decay.numel(),
          .heads = o.decay.dim(1)};
}

int64_t blocks_of_gates(int64_t count) { return (count + threads - 1) / threads; }

void forward(Stream& stream, const Tensor& log_decay, const Tensor& strength, const DeltaGateOperands& o) {
  require_flat("delta_gate", "log_decay", log_decay, o.decay.numel());
  require_flat("delta_gate", "strength", strength, o.decay.numel());
  with_dtype<float, bf16, double>("delta_gate", o.decay.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const auto gates = gates_of<T>(o);
    launch("delta_gate", forward_kernel<device_t<T>>, blocks_of_gates(gates.count), threads, stream,
           pointer<A>(log_decay), pointer<A>(strength), gates);
  });
}

void backward(Stream& stream, const DeltaGateGradients& g, const Tensor& dlog_decay, const Tensor& dstrength,
              const DeltaGateOperands& o) {
  for (const auto& [name, t] : {std::pair{"ddecay", g.ddecay},
                                {"dwrite", g.dwrite},
                                {"rates", g.rates},
                                {"shifts", g.shifts},
                                {"dlog_decay", dlog_decay},
                                {"dstrength", dstrength}})
    require_flat("delta_gate", name, t, o.decay.numel());
  with_dtype<float, bf16, double>("delta_gate", o.decay.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const auto gates = gates_of<T>(o);
    const Gradients<device_t<T>> results{.ddecay = pointer<T>(g.ddecay),
                                         .dwrite = pointer<T>(g.dwrite),
                                         .rates = pointer<A>(g.rates),
                                         .shifts = pointer<A>(g.shifts),
                                         .dlog_decay = pointer<A>(dlog_decay),
                                         .dstrength = pointer<A>(dstrength)};
    launch("delta_gate", backward_kernel<device_t<T>>, blocks_of_gates(gates.count), threads, stream, results, gates);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const DeltaGateKernels DeltaGateKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
