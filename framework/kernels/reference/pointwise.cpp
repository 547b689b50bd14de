#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void fill(Stream& stream, const Tensor& out, double value) {
  stream.run([=] {
    Array Y = zeros(out);
    std::fill(Y.values.begin(), Y.values.end(), value);
    store(out, Y);
  });
}

void copy(Stream& stream, const Tensor& out, const Tensor& x) {
  stream.run([=] { store(out, load(x)); });
}

void add(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] {
    const Array A = load(a);
    Array Y = load(b);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] += A[i];
    store(out, Y);
  });
}

void axpy(Stream& stream, const Tensor& out, double alpha, const Tensor& x) {
  stream.run([=] {
    const Array X = load(x);
    Array Y = load(out);
    for (int64_t i = 0; i < Y.size(); ++i) Y[i] += alpha * X[i];
    store(out, Y);
  });
}

void scale(Stream& stream, const Tensor& out, double alpha) {
  stream.run([=] {
    Array Y = load(out);
    for (double& y : Y.values) y *= alpha;
    store(out, Y);
  });
}

void clamp(Stream& stream, const Tensor& out, const Tensor& x, double limit) {
  stream.run([=] {
    Array Y = load(x);
    for (double& y : Y.values) y = std::min(std::max(y, -limit), limit);
    store(out, Y);
  });
}

void clamp_backward(Stream& stream, const Tensor& dx, const Tensor& dout, const Tensor& x, double limit) {
  stream.run([=] {
    const Array X = load(x);
    Array D = load(dout);
    for (int64_t i = 0; i < D.size(); ++i) D[i] = std::abs(X[i]) <= limit ? D[i] : 0;
    store(dx, D);
  });
}

void sum(Stream& stream, const Tensor& out, const Tensor& x, Write write) {
  stream.run([=] {
    Array Sum = write == Write::add ? load(out) : zeros(out);
    for (double v : load(x).values) Sum[0] += v;
    store(out, Sum);
  });
}

void sum_of(Stream& stream, const Tensor& out, std::span<const Tensor> addends) {
  stream.run([=, addends = std::vector<Tensor>(addends.begin(), addends.end())] {
    Array Y = load(addends.front());
    for (size_t a = 1; a < addends.size(); ++a) {
      const Array X = load(addends[a]);
      for (int64_t i = 0; i < Y.size(); ++i) Y[i] += X[i];
    }
    store(out, Y);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const PointwiseKernels PointwiseKernels::of_reference{.fill = reference::fill,
                                                      .copy = reference::copy,
                                                      .add = reference::add,
                                                      .axpy = reference::axpy,
                                                      .scale = reference::scale,
                                                      .clamp = reference::clamp,
                                                      .clamp_backward = reference::clamp_backward,
                                                      .sum = reference::sum,
                                                      .sum_of = reference::sum_of};

}  // namespace hexad::kernels
