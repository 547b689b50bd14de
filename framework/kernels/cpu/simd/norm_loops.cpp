#include "framework/kernels/cpu/simd/norm_loops.h"

#include "framework/kernels/cpu/simd/math.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

template <class T, class A = acc_t<T>>
void rms_scale(T* out, const T* x, const A* gain, A r, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out, i, load(x, i) * r * gain[i]);
}

template <class T, class A = acc_t<T>>
A gain_dot(const T* dy, const T* x, const A* gain, int64_t n) {
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += gain[i] * load(dy, i) * load(x, i);
  return sum;
}

template <class T, class A = acc_t<T>>
void rms_gradient(T* dx, const T* dy, const T* x, const A* gain, A r, A back, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(dx, i, r * (gain[i] * load(dy, i) - load(x, i) * back));
}

template <class T, class A = acc_t<T>>
A rms_forward(T* out, const T* x, const A* gain, int64_t n, A eps) {
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += load(x, i) * load(x, i);
  const A r = 1 / sqrt_of(squares / static_cast<A>(n) + eps);
  rms_scale(out, x, gain, r, n);
  return r;
}

template <class T, class A = acc_t<T>>
void rms_input_gradient(T* dx, const T* dy, const T* x, const A* gain, A r, const T* residual, int64_t n) {
  const A back = gain_dot(dy, x, gain, n) * r * r / static_cast<A>(n);
  if (residual) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(dx, i, load(residual, i) + r * (gain[i] * load(dy, i) - load(x, i) * back));
    return;
  }
  rms_gradient(dx, dy, x, gain, r, back, n);
}

template <class T, class A = acc_t<T>>
void layer_forward(T* out, A* stats, const T* x, const A* gain, const A* bias, int64_t n, A eps) {
  A sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += load(x, i);
  const A mean = sum / static_cast<A>(n);
#pragma omp simd reduction(+ : squares)
  for (int64_t i = 0; i < n; ++i) squares += (load(x, i) - mean) * (load(x, i) - mean);
  const A r = 1 / sqrt_of(squares / static_cast<A>(n) + eps);
  stats[0] = mean;
  stats[1] = r;
  if (bias) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out, i, (load(x, i) - mean) * r * gain[i] + bias[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(out, i, (load(x, i) - mean) * r * gain[i]);
  }
}

template <class T, class A = acc_t<T>>
void layer_input_gradient(T* dx, const T* dy, const T* x, const A* gain, const A* stats, int64_t n) {
  const A mean = stats[0], r = stats[1];
  A sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (int64_t i = 0; i < n; ++i) {
    const A g = gain[i] * load(dy, i);
    sum_g += g;
    sum_gn += g * (load(x, i) - mean);
  }
  const A mean_g = sum_g / static_cast<A>(n), back = sum_gn * r * r / static_cast<A>(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(dx, i, r * (gain[i] * load(dy, i) - mean_g - (load(x, i) - mean) * back));
}

// Adds the sum of term(row, c) over rows to out[c]. Rows are summed in blocks of 64, because short sums lose less
// precision. The order of addition is fixed.
template <class A, class Term>
inline void add_column_sums(A* out, int64_t rows, int64_t width, Term term) {
  constexpr int64_t row_block = 64;
  for (int64_t begin = 0; begin < rows; begin += row_block) {
    const int64_t end = begin + row_block < rows ? begin + row_block : rows;
    A sum[column_block];
    for (int64_t c = 0; c < column_block; ++c) sum[c] = 0;
    for (int64_t t = begin; t < end; ++t) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += term(t, c);
    }
    for (int64_t c = 0; c < width; ++c) out[c] += sum[c];
  }
}

template <class T, class A = acc_t<T>>
void rms_weight_gradient(A* dgain, const T* dy, const T* x, const A* r, int64_t rows, int64_t stride, int64_t width) {
  add_column_sums(dgain, rows, width,
                  [=](int64_t t, int64_t c) { return load(dy, t * stride + c) * load(x, t * stride + c) * r[t]; });
}

template <class T, class A = acc_t<T>>
void layer_weight_gradient(A* dgain, const T* dy, const T* x, const A* stats, int64_t rows, int64_t stride,
                           int64_t width) {
  add_column_sums(dgain, rows, width, [=](int64_t t, int64_t c) {
    return load(dy, t * stride + c) * (load(x, t * stride + c) - stats[2 * t]) * stats[2 * t + 1];
  });
}

template <class T, class A = acc_t<T>>
void add_row(T* x, const A* bias, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(x, i, load(x, i) + bias[i]);
}

template <class T, class A = acc_t<T>>
void column_sums(A* sums, const T* dy, int64_t rows, int64_t stride, int64_t width) {
  add_column_sums(sums, rows, width, [=](int64_t t, int64_t c) { return load(dy, t * stride + c); });
}

template <class T>
constexpr NormLoops<T> loops{
    .rms_forward = rms_forward<T>,
    .rms_input_gradient = rms_input_gradient<T>,
    .rms_scale = rms_scale<T>,
    .gain_dot = gain_dot<T>,
    .rms_gradient = rms_gradient<T>,
    .rms_weight_gradient = rms_weight_gradient<T>,
    .layer_forward = layer_forward<T>,
    .layer_input_gradient = layer_input_gradient<T>,
    .layer_weight_gradient = layer_weight_gradient<T>,
    .add_row = add_row<T>,
    .column_sums = column_sums<T>,
};

}  // namespace

const ByDtype<NormLoops> norm_loops{loops<float>, loops<bf16>, loops<double>};

}  // namespace hexad::kernels::cpu::HEXAD_ISA
