#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void check(const Tensor& out, const CausalConvOperands& o, const SequenceRows& rows) {
  require(o.x.rank() == 2 && o.weight.rank() == 2 && o.weight.dim(0) == o.x.dim(1) && rows.sequences > 0 &&
              o.x.dim(0) % rows.sequences == 0,
          "[causal_conv] x is ", o.x.shape(), ", weight ", o.weight.shape(), ", with ", rows.sequences,
          " sequences; expected [T, N] and [N, W], at least one sequence, and T a multiple of the number of sequences");
  const int64_t tokens = o.x.dim(0), width = o.x.dim(1), taps = o.weight.dim(1);
  require_flat("causal_conv", "x", o.x, tokens * width);
  require_flat("causal_conv", "out", out, tokens * width);
  if (o.before.defined()) require_flat("causal_conv", "before", o.before, rows.sequences * (taps - 1) * width);
  if (o.first.defined()) require_flat("causal_conv", "first", o.first, tokens);
}

// Operands of one call, as pointers. `weights` is a transposed copy [W, N], so that all loops run over columns.
template <class T>
struct Filter {
  using A = accumulator_t<T>;
  const T *x, *before;
  const int32_t* first;
  int64_t rows, width, taps, begin;
  std::vector<A> weights;

  Filter(const CausalConvOperands& o, const SequenceRows& r)
      : x(o.x.data<T>()),
        before(o.before.defined() ? o.before.data<T>() : nullptr),
        first(o.first.defined() ? o.first.data<int32_t>() : nullptr),
        rows(o.x.dim(0) / r.sequences),
        width(o.x.dim(1)),
        taps(o.weight.dim(1)),
        begin(r.begin),
        weights(width * taps) {
    const std::vector<A> by_column = accumulators<A>(o.weight);
    for (int64_t n = 0; n < width; ++n)
      for (int64_t w = 0; w < taps; ++w) weights[w * width + n] = by_column[n * taps + w];
  }

  // Returns the row that tap j reads for row i of sequence b; null if this row counts as zero.
  const T* row_of(int64_t b, int64_t i, int64_t j) const {
    const int64_t at = i - j;
    if (first && begin + at < first[b * rows + i]) return nullptr;
    if (at >= 0) return x + (b * rows + at) * width;
    return before ? before + ((b + 1) * (taps - 1) + at) * width : nullptr;
  }
  const A* weights_of(int64_t j) const { return weights.data() + (taps - 1 - j) * width; }

  // Computes the sums of columns [from, to) for row i of sequence b.
  void sum(A* out, int64_t b, int64_t i, int64_t from, int64_t to) const {
    std::fill(out, out + (to - from), A{0});
    for (int64_t j = 0; j < taps; ++j) {
      const T* row = row_of(b, i, j);
      if (!row) continue;
      const A* w = weights_of(j);
      for (int64_t n = from; n < to; ++n) out[n - from] += w[n] * static_cast<A>(row[n]);
    }
  }
};

template <class A>
A sigmoid(A x) {
  return 1 / (1 + std::exp(-x));
}

void forward(Stream& stream, const Tensor& out, const CausalConvOperands& operands, const SequenceRows& rows) {
  stream.run([=] {
    check(out, operands, rows);
    if (out.numel() == 0) return;
    with_dtype<float, bf16, double>("causal_conv", out.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Filter<T> filter(operands, rows);
      T* y = out.data<T>();
      const int64_t width = filter.width;
      parallel_for(operands.x.dim(0), row_grain(width * filter.taps), [&](int64_t begin, int64_t end) {
        std::vector<A> sums(width);
        for (int64_t t = begin; t < end; ++t) {
          filter.sum(sums.data(), t / filter.rows, t % filter.rows, 0, width);
          for (int64_t n = 0; n < width; ++n) y[t * width + n] = static_cast<T>(sums[n] * sigmoid(sums[n]));
        }
      });
    });
  });
}

// Each task computes the gradients of one column block, over all rows in order.
void backward(Stream& stream, const CausalConvGradients& g, const Tensor& dout, const CausalConvOperands& operands,
              const SequenceRows& rows) {
  stream.run([=] {
    check(dout, operands, rows);
    require_flat("causal_conv", "dx", g.dx, operands.x.numel());
    require_flat("causal_conv", "dweight", g.dweight, operands.weight.numel());
    if (g.dbefore.defined())
      require_flat("causal_conv", "dbefore", g.dbefore,
                   rows.sequences * (operands.weight.dim(1) - 1) * operands.x.dim(1));
    if (dout.numel() == 0) return;
    with_dtype<float, bf16, double>("causal_conv", dout.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Filter<T> filter(operands, rows);
      const int64_t width = filter.width, taps = filter.taps, length = filter.rows;
      const T* dy = dout.data<T>();
      T *dx = g.dx.data<T>(), *dbefore = g.dbefore.defined() ? g.dbefore.data<T>() : nullptr;
      A* dweight = g.dweight.data<A>();
      parallel_columns(operands.x.dim(0) * taps, width, [&](int64_t column, int64_t count) {
        // dz: gradients of the sums of one row. drows: gradients of all rows that are read, beginning with the taps - 1
        // rows before the sequence.
        std::vector<A> dz(count);
        std::vector<A> drows((length + taps - 1) * count), sums(count);
        std::vector<A> dweights(taps * count);
        for (int64_t b = 0; b < rows.sequences; ++b) {
          std::fill(drows.begin(), drows.end(), A{0});
          for (int64_t i = 0; i < length; ++i) {
            filter.sum(sums.data(), b, i, column, column + count);
            for (int64_t n = 0; n < count; ++n) {
              const A s = sigmoid(sums[n]);
              dz[n] = static_cast<A>(dy[(b * length + i) * width + column + n]) * s * (1 + sums[n] * (1 - s));
            }
            for (int64_t j = 0; j < taps; ++j) {
              const T* row = filter.row_of(b, i, j);
              if (!row) continue;
              const A* w = filter.weights_of(j) + column;
              A *drow = drows.data() + (i - j + taps - 1) * count, *dw = dweights.data() + (taps - 1 - j) * count;
              for (int64_t n = 0; n < count; ++n) {
                drow[n] += dz[n] * w[n];
                dw[n] += dz[n] * static_cast<A>(row[column + n]);
              }
            }
          }
          for (int64_t i = 0; i < length; ++i)
            for (int64_t n = 0; n < count; ++n)
              dx[(b * length + i) * width + column + n] = static_cast<T>(drows[(i + taps - 1) * count + n]);
          for (int64_t i = 0; dbefore && i < taps - 1; ++i)
            for (int64_t n = 0; n < count; ++n)
              dbefore[(b * (taps - 1) + i) * width + column + n] = static_cast<T>(drows[i * count + n]);
        }
        for (int64_t n = 0; n < count; ++n)
          for (int64_t w = 0; w < taps; ++w) dweight[(column + n) * taps + w] += dweights[w * count + n];
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const CausalConvKernels CausalConvKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
