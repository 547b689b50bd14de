#include <cstring>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

void gather(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& tokens, const Tensor&) {
  stream.run([=] {
    const Array X = load(x), Token = load(tokens);
    Array Y = load(out);
    for (int64_t r = 0; r < Y.rows; ++r)
      for (int64_t d = 0; index_at(Token, r) >= 0 && d < Y.columns; ++d) Y(r, d) = X(index_at(Token, r), d);
    store(out, Y);
  });
}

void combine(Stream& stream, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights,
             std::span<const Tensor> addends) {
  stream.run([=, addends = std::vector<Tensor>(addends.begin(), addends.end())] {
    const Array Y = load(y), Row = load(rows), W = weights.defined() ? load(weights) : Array{};
    Array Out = zeros(out);
    for (int64_t t = 0; t < Row.rows; ++t)
      for (int64_t k = 0; k < Row.columns; ++k) {
        const int64_t r = index_at(Row, t * Row.columns + k);
        if (r < 0) continue;
        const double w = weights.defined() ? W(t, k) : 1;
        for (int64_t d = 0; d < Out.columns; ++d) Out(t, d) += w * Y(r, d);
      }
    for (const Tensor& addend : addends) {
      const Array A = load(addend);
      for (int64_t i = 0; i < Out.size(); ++i) Out[i] += A[i];
    }
    store(out, Out);
  });
}

void combine_backward(Stream& stream, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                      const Tensor& rows, const Tensor&, const Tensor& weights) {
  stream.run([=] {
    const Array DOut = load(dout), Y = load(y), Row = load(rows), W = load(weights);
    Array DY = zeros(dy), DW = zeros(dweights);
    for (int64_t t = 0; t < Row.rows; ++t)
      for (int64_t k = 0; k < Row.columns; ++k) {
        const int64_t r = index_at(Row, t * Row.columns + k);
        if (r < 0) continue;
        for (int64_t d = 0; d < DY.columns; ++d) {
          DY(r, d) = W(t, k) * DOut(t, d);
          DW(t, k) += DOut(t, d) * Y(r, d);
        }
      }
    store(dy, DY);
    store(dweights, DW);
  });
}

void scatter(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  stream.run([=] {
    const Array X = load(x), Row = load(index);
    Array Y = load(out);
    for (int64_t r = 0; r < X.rows; ++r)
      for (int64_t d = 0; index_at(Row, r) >= 0 && d < X.columns; ++d) Y(index_at(Row, r), d) = X(r, d);
    store(out, Y);
  });
}

void gather_weighted(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale) {
  stream.run([=] {
    const Array X = load(x), Row = load(index), Scale = scale.defined() ? load(scale) : Array{};
    Array Y = zeros(out);
    for (int64_t r = 0; r < Y.rows; ++r)
      for (int64_t d = 0; d < Y.columns; ++d) Y(r, d) = (scale.defined() ? Scale[r] : 1) * X(index_at(Row, r), d);
    store(out, Y);
  });
}

void row_dots(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] {
    const Array A = load(a), B = load(b);
    Array Y = zeros(out);
    for (int64_t r = 0; r < A.rows; ++r)
      for (int64_t d = 0; d < A.columns; ++d) Y[r] += A(r, d) * B(r, d);
    store(out, Y);
  });
}

// Calls f(r, place) for each row r of the runs. `place` is the offset of the row's place from this rank's window, in
// bytes.
template <class F>
void for_each_place(const Tensor& distances, const Tensor& runs, int64_t row_bytes, const F& f) {
  HostMemory distance(distances), run(runs);
  const int64_t *end = run.data<int64_t>(), count = runs.dim(1), *rank = end + count, *shift = rank + count;
  for (int64_t n = 0, r = 0; n < count; ++n)
    for (; r < end[n]; ++r) f(r, distance.data<int64_t>()[rank[n]] + (r + shift[n]) * row_bytes);
}

void put(Stream& stream, const Tensor& window, const Tensor& distances, const Tensor& runs, const Tensor& x,
         const Tensor& index) {
  stream.run([=] {
    const int64_t row_bytes = x.dim(1) * base::size_of(x.dtype()), pitch = x.strides()[0] * base::size_of(x.dtype());
    HostMemory windows(window), rows(x), chosen(index.defined() ? index : runs);
    for_each_place(distances, runs, row_bytes, [&](int64_t r, int64_t place) {
      const int64_t from = index.defined() ? chosen.data<int64_t>()[r] : r;
      std::memcpy(windows.bytes() + place, rows.bytes() + from * pitch, row_bytes);
    });
    windows.put_back();
  });
}

void pull(Stream& stream, const Tensor& out, const Tensor& window, const Tensor& distances, const Tensor& runs) {
  stream.run([=] {
    const int64_t row_bytes = out.dim(1) * base::size_of(out.dtype()),
                  pitch = out.strides()[0] * base::size_of(out.dtype());
    HostMemory windows(window), rows(out);
    for_each_place(distances, runs, row_bytes, [&](int64_t r, int64_t place) {
      std::memcpy(rows.bytes() + r * pitch, windows.bytes() + place, row_bytes);
    });
    rows.put_back();
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const PermuteKernels PermuteKernels::of_reference{.gather = reference::gather,
                                                  .combine = reference::combine,
                                                  .combine_backward = reference::combine_backward,
                                                  .scatter = reference::scatter,
                                                  .gather_weighted = reference::gather_weighted,
                                                  .row_dots = reference::row_dots,
                                                  .put = reference::put,
                                                  .pull = reference::pull};

}  // namespace hexad::kernels
