#include "framework/kernels/cpu/simd/pointwise_loops.h"

#include "framework/kernels/cpu/simd/math.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

template <class T, class X>
void convert(T* out, const X* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, load(x, i));
}

template <class T, class X>
void axpy(T* out, double alpha, const X* x, int64_t n) {
  using A = acc_t<T>;
  const A a = static_cast<A>(alpha);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, load(out, i) + a * static_cast<A>(load(x, i)));
}

template <class T>
void add(T* out, const T* a, const T* b, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, load(a, i) + load(b, i));
}

template <class T, class A = acc_t<T>>
void scale(T* out, A alpha, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, load(out, i) * alpha);
}

// NaN remains NaN, because both comparisons with NaN are false. Later checks can therefore detect the NaN.
template <class T, class A = acc_t<T>>
void clamp(T* out, const T* x, A limit, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i);
    store(out, i, v > limit ? limit : (v < -limit ? -limit : v));
  }
}

template <class T, class A = acc_t<T>>
void clamp_backward(T* dx, const T* dout, const T* x, A limit, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A v = load(x, i), d = load(dout, i);
    store(dx, i, v <= limit && v >= -limit ? d : A(0));
  }
}

template <class T, class A = acc_t<T>>
void weighted_sum(T* out, const T* const* rows, const A* weights, int64_t count, int64_t n) {
  constexpr int64_t block = 256;  // the sums of a block fit in the first-level cache
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t size = begin + block < n ? block : n - begin;
    A sum[block];
    for (int64_t i = 0; i < size; ++i) sum[i] = 0;
    for (int64_t k = 0; k < count; ++k) {
      const T* row = rows[k] + begin;
      const A w = weights ? weights[k] : A(1);
#pragma omp simd
      for (int64_t i = 0; i < size; ++i) sum[i] += w * load(row, i);
    }
#pragma omp simd
    for (int64_t i = 0; i < size; ++i) store(out, begin + i, sum[i]);
  }
}

template <class T, class A = acc_t<T>>
void scaled(T* out, A alpha, const T* x, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, alpha * load(x, i));
}

template <class T, class A = acc_t<T>>
A dot(const T* a, const T* b, int64_t n) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += load(a, i) * load(b, i);
  return sum;
}

template <class T, class A = acc_t<T>>
A scale_and_dot(T* dy, A weight, const T* dout, const T* y, int64_t n) {
  A dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t i = 0; i < n; ++i) {
    const A d = load(dout, i);
    dot += d * load(y, i);
    store(dy, i, weight * d);
  }
  return dot;
}

// Reads four streams of addresses at a time, because one stream does not use the full memory bandwidth.
template <class T>
double squared_sum(const T* x, int64_t n) {
  const int64_t part = n / 4;
  const auto square = [x](int64_t i) {
    const double v = load(x, i);
    return v * v;
  };
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < part; ++i)
    sum += (square(i) + square(i + part)) + (square(i + 2 * part) + square(i + 3 * part));
  for (int64_t i = 4 * part; i < n; ++i) sum += square(i);
  return sum;
}

template <class T>
constexpr PointwiseLoops<T> loops{
    .convert = {convert<T, float>, convert<T, bf16>, convert<T, double>},
    .axpy = {axpy<T, float>, axpy<T, bf16>, axpy<T, double>},
    .add = add<T>,
    .scale = scale<T>,
    .clamp = clamp<T>,
    .clamp_backward = clamp_backward<T>,
    .weighted_sum = weighted_sum<T>,
    .scaled = scaled<T>,
    .dot = dot<T>,
    .scale_and_dot = scale_and_dot<T>,
    .squared_sum = squared_sum<T>,
};

}  // namespace

const ByDtype<PointwiseLoops> pointwise_loops{loops<float>, loops<bf16>, loops<double>};

}  // namespace hexad::kernels::cpu::HEXAD_ISA
