#include <cmath>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Operands of one call. The rows of a sequence are in the order of their positions.
struct Filter {
  const Array X, W, before, first;
  const int64_t sequences, begin, rows, taps;

  Filter(const CausalConvOperands& o, const SequenceRows& r)
      : X(load(o.x)),
        W(load(o.weight)),
        before(o.before.defined() ? load(o.before) : Array{0, 0, {}}),
        first(o.first.defined() ? load(o.first) : Array{0, 0, {}}),
        sequences(r.sequences),
        begin(r.begin),
        rows(X.rows / r.sequences),
        taps(W.columns) {}

  // Calls f(j, row, of_before) for each tap j that contributes to row i of sequence b. `row` is the row that the tap
  // multiplies: a row of X or, if of_before is true, of `before`.
  template <class F>
  void for_each_tap(int64_t b, int64_t i, const F& f) const {
    for (int64_t j = 0; j < taps; ++j) {
      const int64_t at = i - j;
      if (first.size() > 0 && begin + at < index_at(first, b * rows + i)) continue;
      if (at >= 0)
        f(j, b * rows + at, false);
      else if (before.size() > 0)
        f(j, (b + 1) * (taps - 1) + at, true);
    }
  }
  double sum(int64_t b, int64_t i, int64_t n) const {
    double total = 0;
    for_each_tap(b, i, [&](int64_t j, int64_t row, bool of_before) {
      total += W(n, taps - 1 - j) * (of_before ? before(row, n) : X(row, n));
    });
    return total;
  }
};

void forward(Stream& stream, const Tensor& out, const CausalConvOperands& operands, const SequenceRows& rows) {
  stream.run([=] {
    const Filter filter(operands, rows);
    Array Y = zeros(out);
    for (int64_t t = 0; t < Y.rows; ++t)
      for (int64_t n = 0; n < Y.columns; ++n) {
        const double z = filter.sum(t / filter.rows, t % filter.rows, n);
        Y(t, n) = z * sigmoid(z);
      }
    store(out, Y);
  });
}

void backward(Stream& stream, const CausalConvGradients& g, const Tensor& dout, const CausalConvOperands& operands,
              const SequenceRows& rows) {
  stream.run([=] {
    const Filter filter(operands, rows);
    const Array DY = load(dout);
    Array DX = zeros(g.dx), DW = load(g.dweight);
    Array DB = g.dbefore.defined() ? zeros(g.dbefore) : Array{0, 0, {}};
    for (int64_t t = 0; t < DY.rows; ++t)
      for (int64_t n = 0; n < DY.columns; ++n) {
        const int64_t b = t / filter.rows, i = t % filter.rows;
        const double z = filter.sum(b, i, n), s = sigmoid(z), dz = DY(t, n) * s * (1 + z * (1 - s));
        filter.for_each_tap(b, i, [&](int64_t j, int64_t row, bool of_before) {
          const double weight = filter.W(n, filter.taps - 1 - j);
          DW(n, filter.taps - 1 - j) += dz * (of_before ? filter.before(row, n) : filter.X(row, n));
          if (!of_before)
            DX(row, n) += dz * weight;
          else if (DB.size() > 0)
            DB(row, n) += dz * weight;
        });
      }
    store(g.dx, DX);
    store(g.dweight, DW);
    if (g.dbefore.defined()) store(g.dbefore, DB);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const CausalConvKernels CausalConvKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
