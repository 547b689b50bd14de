#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "framework/base/main_weight.h"
#include "framework/base/random_rounding.h"
#include "framework/kernels/cuda/total.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace tensor;
namespace {

/// Parameters that select the random bits for rounding moments of type M; empty if moments are not rounded.
template <class M>
struct Rounding {};
template <>
struct Rounding<__nv_bfloat16> {
  base::GlobalIndex place;
  uint32_t key;
};

/// A slice with the element types of the kernel. A: accumulator; G: gradient; W: the model's copy of the weights; M:
/// moments (A or bf16); P: main weights (A), or their rests (bf16, see base/main_weight.h).
template <class A, class G, class W, class M, class P>
struct Slice {
  P* main;
  M *m, *v;
  W* weights;  // null: the main weights are the only copy
  const G* gradient;
  int64_t count;
  int64_t first_block;  // number of blocks in all previous slices
  A keep;               // 1 - lr * decay
  bool aligned;         // true if all addresses are multiples of the size of a vector
  Rounding<M> rounding;
};

/// Constants of a step (Kingma & Ba 2015, section 2). The bias corrections are part of step_size and root_correction.
template <class A>
struct AdamwConstants {
  A beta1, beta2, one_minus_beta1, one_minus_beta2;
  A step_size;        // lr / (1 - beta1^step)
  A root_correction;  // 1 / sqrt(1 - beta2^step)
  A eps;
};

constexpr int threads = 256, at_once = 2;
constexpr int64_t block_elements = 16384;
template <class M>
constexpr int max_slices = std::is_same_v<M, __nv_bfloat16> ? 32 : 48;

template <class A, class G, class W, class M, class P>
struct Batch {
  Slice<A, G, W, M, P> slices[max_slices<M>];
  int used = 0;
  int64_t blocks = 0;
};

/// Returns the factor by which gradients are multiplied; 1 if `factor` is null. The step is skipped if the factor is
/// negative.
__device__ __forceinline__ double factor_of(const double* factor) { return factor ? *factor : 1.0; }

/// Writes a slice's moments, beginning with element i. Elements must be written in order, because each write advances
/// to the random bits of the next element.
template <class M>
struct Moments {
  __device__ __forceinline__ Moments(const Rounding<M>&, int64_t) {}
  __device__ __forceinline__ void write(M& m, M& v, M mi, M vi) { m = mi, v = vi; }
};
template <>
struct Moments<__nv_bfloat16> {
  const Rounding<__nv_bfloat16>& rounding;
  base::GlobalIndex::Position position;

  __device__ __forceinline__ Moments(const Rounding<__nv_bfloat16>& r, int64_t i)
      : rounding(r), position(r.place.at(i)) {}
  __device__ __forceinline__ void write(__nv_bfloat16& m, __nv_bfloat16& v, float mi, float vi) {
    const uint32_t random = base::random_bits(rounding.key, static_cast<uint32_t>(position.index));
    m = std::bit_cast<__nv_bfloat16>(base::bf16_bits_at_random(mi, random));
    v = std::bit_cast<__nv_bfloat16>(base::bf16_bits_at_random(vi, random >> 16));
    rounding.place.advance(position);
  }
};

/// Returns the bits of a second moment, a weight or a rest. If main weights are stored as rests, the sign bit of each
/// second moment stores a mark.
__device__ __forceinline__ uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
__device__ __forceinline__ uint16_t bits_of(__nv_bfloat16 v) { return std::bit_cast<uint16_t>(v); }

/// Access to the main weights of a vector of elements. The primary template is for main weights that are stored in
/// full.
template <class A, class W, class M, class P, int N>
struct MainWeights {
  Words<P, N> main;

  __device__ __forceinline__ void read(const P* at, const W*, int64_t i) { main = load_words_once<N>(at + i); }
  /// Writes the main weights to `out`.
  __device__ __forceinline__ void join(Vector<A, N>& out, Vector<M, N>&) const { out = elements(main); }
  __device__ __forceinline__ static void write(P* at, const Vector<A, N>& ps, Vector<M, N>&) { store_once(at, ps); }
};
/// Main weights that are stored as weights, rests, and marks in the signs of second moments.
template <class W, class M, int N>
struct MainWeights<float, W, M, __nv_bfloat16, N> {
  Words<__nv_bfloat16, N> rests;
  Words<W, N> weights;

  __device__ __forceinline__ void read(const __nv_bfloat16* at, const W* model_weights, int64_t i) {
    rests = load_words_once<N>(at + i);
    weights = load_words_once<N>(model_weights + i);
  }
  /// Writes the main weights to `out` and clears the marks of `vs`.
  __device__ __forceinline__ void join(Vector<float, N>& out, Vector<M, N>& vs) const {
    const Vector<__nv_bfloat16, N> rs = elements(rests);
    const Vector<W, N> ws = elements(weights);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const auto moment = bits_of(vs.at[e]);
      out.at[e] = base::main_of(bits_of(ws.at[e]), bits_of(rs.at[e]), base::has_mark(moment));
      vs.at[e] = std::bit_cast<M>(base::with_mark(moment, false));
    }
  }
  /// Writes the rests, and stores the mark of each weight in `vs`.
  __device__ __forceinline__ static void write(__nv_bfloat16* at, const Vector<float, N>& ps, Vector<M, N>& vs) {
    Vector<__nv_bfloat16, N> rs;
#pragma unroll
    for (int e = 0; e < N; ++e) {
      rs.at[e] = std::bit_cast<__nv_bfloat16>(base::rest_of(ps.at[e]));
      vs.at[e] = std::bit_cast<M>(base::with_mark(bits_of(vs.at[e]), base::marked(ps.at[e])));
    }
    store_once(at, rs);
  }
};

template <class A, class G, class W, class M, class P, int N>
struct Elements {
  MainWeights<A, W, M, P, N> main;
  Words<M, N> m, v;
  Words<G, N> gradient;

  __device__ __forceinline__ void read(const Slice<A, G, W, M, P>& s, int64_t i) {
    main.read(s.main, s.weights, i);
    m = load_words_once<N>(s.m + i);
    v = load_words_once<N>(s.v + i);
    gradient = load_words_once<N>(s.gradient + i);
  }
  __device__ __forceinline__ void update(const Slice<A, G, W, M, P>& s, const AdamwConstants<A>& c, A factor,
                                         int64_t i) const {
    const Vector<G, N> gradients = elements(gradient);
    Vector<A, N> ps;
    Vector<M, N> ms = elements(m), vs = elements(v);
    Vector<W, N> ws;
    main.join(ps, vs);
    Moments<M> moments(s.rounding, i);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const A g = factor * to<A>(gradients.at[e]);
      const A mi = c.beta1 * to<A>(ms.at[e]) + c.one_minus_beta1 * g;
      const A vi = c.beta2 * to<A>(vs.at[e]) + c.one_minus_beta2 * g * g;
      moments.write(ms.at[e], vs.at[e], mi, vi);
      ps.at[e] = s.keep * ps.at[e] - c.step_size * mi / (sqrt(vi) * c.root_correction + c.eps);
      ws.at[e] = to<W>(ps.at[e]);
    }
    main.write(s.main + i, ps, vs);
    store_once(s.m + i, ms);
    store_once(s.v + i, vs);
    if (s.weights) store(s.weights + i, ws);
  }
};

/// Updates elements [begin, end) of a slice, N elements at a time.
template <int N, class A, class G, class W, class M, class P>
__device__ __forceinline__ void update_range(const Slice<A, G, W, M, P>& s, const AdamwConstants<A>& c, A factor,
                                             int64_t begin, int64_t end) {
  for (int64_t top = begin + threadIdx.x * N; top < end; top += threads * N * at_once) {
    Elements<A, G, W, M, P, N> part[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (top + u * threads * N < end) part[u].read(s, top + u * threads * N);
#pragma unroll
    for (int u = 0; u < at_once; ++u)
      if (top + u * threads * N < end) part[u].update(s, c, factor, top + u * threads * N);
  }
}

/// Updates block_elements elements of a slice per block.
template <class A, class G, class W, class M, class P>
__global__ void __launch_bounds__(threads) adamw_blocks(const __grid_constant__ Batch<A, G, W, M, P> batch,
                                                        AdamwConstants<A> constants, const double* factor) {
  const double by = factor_of(factor);
  if (by < 0) return;
  int low = 0, high = batch.used;  // binary search for the last slice whose first block is not after this block
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (batch.slices[middle].first_block <= int64_t{blockIdx.x} ? low : high) = middle;
  }
  const Slice<A, G, W, M, P> s = batch.slices[low];
  const int64_t begin = (blockIdx.x - s.first_block) * block_elements, end = min(begin + block_elements, s.count);
  constexpr int N = 16 / static_cast<int>(sizeof(A));
  const int64_t middle = s.aligned ? end - end % N : begin;
  update_range<N>(s, constants, static_cast<A>(by), begin, middle);
  update_range<1>(s, constants, static_cast<A>(by), middle, end);
}

template <class A>
AdamwConstants<A> constants_of(const AdamwStep& s) {
  const double step = static_cast<double>(s.step);
  return {.beta1 = static_cast<A>(s.beta1),
          .beta2 = static_cast<A>(s.beta2),
          .one_minus_beta1 = static_cast<A>(1 - s.beta1),
          .one_minus_beta2 = static_cast<A>(1 - s.beta2),
          .step_size = static_cast<A>(s.lr / (1 - std::pow(s.beta1, step))),
          .root_correction = static_cast<A>(1 / std::sqrt(1 - std::pow(s.beta2, step))),
          .eps = static_cast<A>(s.eps)};
}

template <class A, class G, class W, class M, class P>
void launch_adamw(Stream& stream, const Batch<A, G, W, M, P>& batch, const AdamwStep& step, const double* factor) {
  static_assert(sizeof(batch) + sizeof(AdamwConstants<A>) + sizeof(factor) <= 4096,
                "the arguments of a launch must fit into 4096 bytes");
  launch("adamw", adamw_blocks<A, G, W, M, P>, batch.blocks, threads, stream, batch, constants_of<A>(step), factor);
}

template <class... P>
bool on_vectors(int elements, const P*... pointers) {
  return (multiples_of(elements, sizeof(P), pointers, {}) && ...);
}

/// Calls f<A, G, W>(weights) with the types of the main weights, the gradient and the model's copy. `weights` is null
/// if the main weights are the only copy.
template <class F>
void with_types(std::string_view op, const Tensor& main, const Tensor& gradient, const Tensor& weights, const F& f) {
  require_flat(op, "main", main, main.numel());
  require_flat(op, "weights", weights, main.numel());
  require_flat(op, "gradient", gradient, main.numel());
  const auto with_copy = [&]<class A, class G>() {
    with_dtype<float, bf16, double>(op, weights.dtype(), [&]<class T>() {
      device_t<T>* copy = device_raw(weights) == device_raw(main) ? nullptr : pointer<T>(weights);
      f.template operator()<A, G, device_t<T>>(copy);
    });
  };
  with_dtype<float, double>(op, main.dtype(), [&]<class A>() {
    if (gradient.dtype() == Dtype::bf16) {
      with_copy.template operator()<A, __nv_bfloat16>();
    } else {
      with_copy.template operator()<A, A>();
    }
  });
}

/// Returns the address of the first element of `t`: a gradient, a moment, main weights or rests. The dtype of `t` is
/// the accumulator dtype or bf16.
template <class D>
D* acc_or_bf16(const Tensor& t) {
  return pointer<std::conditional_t<std::is_same_v<D, __nv_bfloat16>, bf16, D>>(t);
}

const double* factor_pointer(std::string_view op, const Tensor& factor) {
  if (factor.defined()) require_flat(op, "factor", factor, 1);
  return pointer<double>(factor);
}

template <class M>
Rounding<M> rounding_of(const AdamwSlice& s) {
  if constexpr (std::is_same_v<M, __nv_bfloat16>) {
    return {s.place, s.rounding_key};
  } else {
    return {};
  }
}

/// Updates the slices of one combination of types. Each launch updates at most `max_slices` slices.
template <class A, class G, class W, class M, class P = A>
void update_alike(Stream& stream, const std::vector<const AdamwSlice*>& slices, const AdamwStep& step,
                  const double* factor) {
  Batch<A, G, W, M, P> batch;
  for (const AdamwSlice* of : slices) {
    const AdamwSlice& s = *of;
    const int64_t n = s.main.numel();
    for (const auto& [name, t] :
         {std::pair{"main", s.main}, {"m", s.m}, {"v", s.v}, {"weights", s.weights}, {"gradient", s.gradient}})
      require_flat("adamw", name, t, n);
    if (n == 0) continue;
    if (batch.used == max_slices<M>) {
      launch_adamw(stream, batch, step, factor);
      batch = {};
    }
    Slice<A, G, W, M, P>& slice = batch.slices[batch.used++];
    slice = {.main = acc_or_bf16<P>(s.main),
             .m = acc_or_bf16<M>(s.m),
             .v = acc_or_bf16<M>(s.v),
             .weights = device_raw(s.weights) == device_raw(s.main) ? nullptr : static_cast<W*>(device_raw(s.weights)),
             .gradient = acc_or_bf16<G>(s.gradient),
             .count = n,
             .first_block = batch.blocks,
             .keep = static_cast<A>(1 - step.lr * s.weight_decay),
             .aligned = false,
             .rounding = rounding_of<M>(s)};
    slice.aligned =
        on_vectors(16 / static_cast<int>(sizeof(A)), slice.main, slice.m, slice.v, slice.weights, slice.gradient);
    batch.blocks += (n + block_elements - 1) / block_elements;
  }
  launch_adamw(stream, batch, step, factor);
}

/// Returns the dtypes of a slice, which determine its kernel.
std::array<Dtype, 4> dtypes_of(const AdamwSlice& s) {
  return {s.main.dtype(), s.m.dtype(), s.weights.dtype(), s.gradient.dtype()};
}

void adamw(Stream& stream, std::span<const AdamwSlice> slices, const AdamwStep& step, const Tensor& factor) {
  require(step.step >= 1, "[adamw] step is ", step.step, "; expected at least 1");
  const double* by = factor_pointer("adamw", factor);
  std::vector<bool> done(slices.size());
  for (size_t first = 0; first < slices.size(); ++first) {
    if (done[first]) continue;
    const AdamwSlice& model = slices[first];
    std::vector<const AdamwSlice*> alike;
    bool bf16_moments = false, rests = false;
    for (size_t i = first; i < slices.size(); ++i) {
      if (done[i] || dtypes_of(slices[i]) != dtypes_of(model)) continue;
      done[i] = true;
      bf16_moments = has_bf16_moments(slices[i]), rests = has_rests(slices[i]);
      alike.push_back(&slices[i]);
    }
    if (rests) {
      with_dtype<float, bf16>("adamw", model.gradient.dtype(), [&]<class G>() {
        with_dtype<float, bf16>("adamw", model.m.dtype(), [&]<class M>() {
          update_alike<float, device_t<G>, __nv_bfloat16, device_t<M>, __nv_bfloat16>(stream, alike, step, by);
        });
      });
      continue;
    }
    with_types("adamw", model.main, model.gradient, model.weights, [&]<class A, class G, class W>(W*) {
      if constexpr (std::is_same_v<A, float>)
        if (bf16_moments) return update_alike<A, G, W, __nv_bfloat16>(stream, alike, step, by);
      update_alike<A, G, W, A>(stream, alike, step, by);
    });
  }
}

template <class A, class G, class W>
__global__ void __launch_bounds__(item_threads)
    sgd_elements(A* main, W* weights, const G* gradient, int64_t count, double lr, const double* factor) {
  const double by = factor_of(factor);
  if (by < 0) return;
  const A rate = static_cast<A>(lr * by);
#pragma unroll
  for (int u = 0; u < items_at_once; ++u) {
    const int64_t i = item_of_thread<items_at_once>(u);
    if (i >= count) return;
    const A p = main[i] - rate * to<A>(gradient[i]);
    main[i] = p;
    if (weights) weights[i] = to<W>(p);
  }
}

void sgd(Stream& stream, const Tensor& main, const Tensor& weights, const Tensor& gradient, double lr,
         const Tensor& factor) {
  with_types("sgd", main, gradient, weights, [&]<class A, class G, class W>(W* copy) {
    launch("sgd", sgd_elements<A, G, W>, blocks_of<items_at_once>(Items<1>{main.numel(), main.numel()}), item_threads,
           stream, pointer<A>(main), copy, acc_or_bf16<G>(gradient), main.numel(), lr, factor_pointer("sgd", factor));
  });
}

struct Square {
  __device__ double operator()(double x) const { return x * x; }
};

void squared_norm(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  require(out.dtype() == Dtype::f64, "[squared_norm] out is ", out.dtype(), "; expected f64");
  total<Square>("squared_norm", stream, out, x, write);
}

__global__ void __launch_bounds__(item_threads)
    clip_factor(double* factor, const double* sums, int64_t count, double limit) {
  int bad = 0;
  for (int64_t i = threadIdx.x; i < count; i += item_threads) bad |= !isfinite(sums[i]);
  bad = __syncthreads_or(bad);
  if (threadIdx.x == 0) *factor = bad ? -1.0 : limit == 0 ? 1.0 : fmin(1.0, limit / sqrt(sums[0]));
}

void clip(Stream& stream, const Tensor& factor, const Tensor& sums, double limit) {
  require_flat("clip", "factor", factor, 1);
  require_flat("clip", "sums", sums, sums.numel());
  require(sums.numel() > 0, "[clip] sums has no elements; expected at least one element");
  launch("clip", clip_factor, 1, item_threads, stream, pointer<double>(factor), pointer<double>(sums), sums.numel(),
         limit);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const OptimizerKernels OptimizerKernels::of_cuda{
    .adamw = cuda::adamw, .sgd = cuda::sgd, .squared_norm = cuda::squared_norm, .clip = cuda::clip};

}  // namespace hexad::kernels
