#include "framework/kernels/cpu/simd/activation_loops.h"

#include "framework/kernels/cpu/simd/math.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

template <class T, class A = acc_t<T>>
void swiglu_forward(T* out, const T* gate, const T* up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A g = load(gate, i);
    store(out, i, g * sigmoid_of(g) * load(up, i));
  }
}

template <class T, class A = acc_t<T>>
void swiglu_backward(T* dgate, T* dup, const T* dout, const T* gate, const T* up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A d = load(dout, i), g = load(gate, i), u = load(up, i), s = sigmoid_of(g);
    store(dgate, i, d * u * s * (1 + g * (1 - s)));
    store(dup, i, d * g * s);
  }
}

template <class T, class A = acc_t<T>>
void weighted_swiglu_forward(T* out, const T* gate, const T* up, A weight, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A g = load(gate, i);
    store(out, i, g * sigmoid_of(g) * load(up, i) * weight);
  }
}

// Reads all values of an element before writing any, because results may overwrite operands.
template <class T, class A = acc_t<T>>
A weighted_swiglu_backward(T* dgate, T* dup, T* product, const T* dout, const T* gate, const T* up, A weight,
                           int64_t n) {
  A sum = 0;
  if (product) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const A dy = load(dout, i), g = load(gate, i), u = load(up, i), s = sigmoid_of(g), d = weight * dy, p = g * s * u;
      sum += dy * p;
      store(dgate, i, d * u * s * (1 + g * (1 - s)));
      store(dup, i, d * g * s);
      store(product, i, p * weight);
    }
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) {
      const A dy = load(dout, i), g = load(gate, i), u = load(up, i), s = sigmoid_of(g), d = weight * dy;
      sum += dy * (g * s * u);
      store(dgate, i, d * u * s * (1 + g * (1 - s)));
      store(dup, i, d * g * s);
    }
  }
  return sum;
}

template <class A>
A at_most(A x, A limit) {
  return limit < x ? limit : x;
}

template <class T, class A = acc_t<T>>
void clamped_swiglu_forward(T* out, const T* gate, const T* up, A weight, A slope, A limit, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A g = at_most<A>(load(gate, i), limit), u = -at_most<A>(-at_most<A>(load(up, i), limit), limit);
    store(out, i, g * sigmoid_of(slope * g) * (u + 1) * weight);
  }
}

// Reads all values of an element before writing any, because results may overwrite operands.
template <class T, class A = acc_t<T>>
A clamped_swiglu_backward(ClampedSwigluRow<T> row, int64_t n) {
  T *const dgate = row.dgate, *const dup = row.dup;
  T* const products = row.product ? row.product : dgate;  // dgate may hold products until its values are written
  const T *const dout = row.dout, *const gate = row.gate, *const up = row.up;
  const A weight = row.weight, slope = row.slope, limit = row.limit;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const A dy = load(dout, i), in = load(gate, i), v = load(up, i), d = weight * dy;
    const A g = at_most<A>(in, limit), u = -at_most<A>(-at_most<A>(v, limit), limit);
    const A s = sigmoid_of(slope * g), p = g * s * (u + 1);
    sum += dy * p;
    store(products, i, p * weight);
    store(dgate, i, in <= limit ? d * (u + 1) * s * (1 + slope * g * (1 - s)) : A(0));
    store(dup, i, v <= limit && -limit <= v ? d * g * s : A(0));
  }
  return sum;
}

template <class T, class A = acc_t<T>>
void gelu_exact_forward(T* out, const T* x, int64_t n) {
  constexpr A inverse_sqrt2 = static_cast<A>(0.70710678118654752440);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i);
    store(out, i, v / 2 * (1 + erf_of(v * inverse_sqrt2)));
  }
}

template <class T, class A = acc_t<T>>
void gelu_exact_backward(T* dx, const T* dout, const T* x, int64_t n) {
  constexpr A inverse_sqrt2 = static_cast<A>(0.70710678118654752440);
  constexpr A inverse_sqrt2pi = static_cast<A>(0.39894228040143267794);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i);
    const A slope = (1 + erf_of(v * inverse_sqrt2)) / 2 + v * exp_of(-v * v / 2) * inverse_sqrt2pi;
    store(dx, i, load(dout, i) * slope);
  }
}

// Uses (1 + tanh(u)) / 2 = sigmoid(2 u), which needs no tanh and avoids cancellation.
template <class T, class A = acc_t<T>>
void gelu_tanh_forward(T* out, const T* x, int64_t n) {
  constexpr A twice_sqrt_2_pi = static_cast<A>(1.59576912160573071176), cubic = static_cast<A>(0.044715);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i);
    store(out, i, v * sigmoid_of(twice_sqrt_2_pi * (v + cubic * v * v * v)));
  }
}

template <class T, class A = acc_t<T>>
void gelu_tanh_backward(T* dx, const T* dout, const T* x, int64_t n) {
  constexpr A twice_sqrt_2_pi = static_cast<A>(1.59576912160573071176), cubic = static_cast<A>(0.044715);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i), u = twice_sqrt_2_pi * (v + cubic * v * v * v);
    // Computes the smaller of sigmoid(u) and 1 - sigmoid(u) directly, because one minus the larger value would lose
    // precision.
    const A smaller = sigmoid_of(u < 0 ? u : -u), larger = 1 - smaller;
    const A slope = (u < 0 ? smaller : larger) + v * smaller * larger * twice_sqrt_2_pi * (1 + 3 * cubic * v * v);
    store(dx, i, load(dout, i) * slope);
  }
}

template <class T, class A = acc_t<T>>
void rotate(T* out, const T* x, const A* cosine, const A* sine, A sign, int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const A a = load(x, i), b = load(x, i + half), c = cosine[i], s = sign * sine[i];
    store(out, i, a * c - b * s);
    store(out, i + half, b * c + a * s);
  }
}

template <class A>
void exp_all(A* p, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] = exp_of(p[i]);
}

template <class A>
void sigmoid_all(A* p, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) p[i] = sigmoid_of(p[i]);
}

inline float log_of(float x) { return __builtin_logf(x); }
inline double log_of(double x) { return __builtin_log(x); }

template <class A>
A cross_entropy(A* d, const A* x, int64_t n, int64_t target, A scale) {
  A largest = x[0], sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  const A at_target = x[target] - largest;
  if (!d) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += exp_of(x[i] - largest);
    return log_of(sum) - at_target;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const A e = exp_of(x[i] - largest);
    d[i] = e;
    sum += e;
  }
  const A factor = scale / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) d[i] *= factor;
  d[target] -= scale;
  return log_of(sum) - at_target;
}

template <class T>
constexpr ActivationLoops<T> loops{
    .swiglu_forward = swiglu_forward<T>,
    .swiglu_backward = swiglu_backward<T>,
    .weighted_swiglu_forward = weighted_swiglu_forward<T>,
    .weighted_swiglu_backward = weighted_swiglu_backward<T>,
    .clamped_swiglu_forward = clamped_swiglu_forward<T>,
    .clamped_swiglu_backward = clamped_swiglu_backward<T>,
    .gelu_exact_forward = gelu_exact_forward<T>,
    .gelu_exact_backward = gelu_exact_backward<T>,
    .gelu_tanh_forward = gelu_tanh_forward<T>,
    .gelu_tanh_backward = gelu_tanh_backward<T>,
    .rotate = rotate<T>,
    .exp = exp_all<acc_t<T>>,
    .sigmoid = sigmoid_all<acc_t<T>>,
    .cross_entropy = cross_entropy<acc_t<T>>,
};

}  // namespace

const ByDtype<ActivationLoops> activation_loops{loops<float>, loops<bf16>, loops<double>};

}  // namespace hexad::kernels::cpu::HEXAD_ISA
