#include <cstring>

#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

// Copies out[r, :] = x[index[r], :]. Rows with index -1 are not copied; -1 is allowed only if `lowest` is -1.
void copy_rows(std::string_view op, std::string_view name, const Tensor& out, const Tensor& x, const Tensor& index,
               int64_t lowest) {
  with_dtype<float, bf16, double>(op, x.dtype(), [&]<class T>() {
    const Rows<T> X(x), Y(out);
    require_shape(op, "out", out, {index.numel(), X.width()});
    const int64_t* from = checked_indices<int64_t>(op, name, index, lowest, X.count());
    parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (from[r] < 0) continue;
        const T* row = X[from[r]];
        if (row != Y[r]) std::copy_n(row, X.width(), Y[r]);
      }
    });
  });
}

// Iterates over the rows of `out`, and reads the rows of `x` in the order of `tokens`. These reads are fast, because
// `x` usually fits in the cache: it has fewer rows than `out`.
void gather(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& tokens, const Tensor&) {
  stream.run([=] { copy_rows("gather", "tokens", out, x, tokens, -1); });
}

void combine(Stream& stream, const Tensor& out, const Tensor& y, const Tensor& rows, const Tensor& weights,
             std::span<const Tensor> addends) {
  stream.run([=, addends = std::vector<Tensor>(addends.begin(), addends.end())] {
    with_dtype<float, bf16, double>("combine", y.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> Y(y), Out(out);
      const int64_t slots = rows.dim(1);
      require_shape("combine", "out", out, {rows.dim(0), Y.width()});
      if (weights.defined()) require_flat("combine", "weights", weights, rows.numel());
      const int64_t* row = checked_indices<int64_t>("combine", "rows", rows, -1, Y.count());
      const A* w = weights.defined() ? weights.data<A>() : nullptr;
      std::vector<Rows<T>> joined;
      for (const Tensor& addend : addends) {
        require_shape("combine", "an addend", addend, out.shape());
        joined.emplace_back(addend);
      }
      const size_t most = slots + joined.size();
      const auto sum = choose<T>(v3::pointwise_loops, v4::pointwise_loops).weighted_sum;
      parallel_for(Out.count(), row_grain(Y.width() * static_cast<int64_t>(most)), [&](int64_t begin, int64_t end) {
        std::vector<const T*> kept(most);
        std::vector<A> kept_weights(most);
        for (int64_t t = begin; t < end; ++t) {
          size_t n = 0;
          for (int64_t slot = t * slots; slot < (t + 1) * slots; ++slot) {
            if (row[slot] < 0) continue;  // a dropped slot has no row
            kept[n] = Y[row[slot]];
            kept_weights[n++] = w ? w[slot] : A(1);
          }
          for (const Rows<T>& addend : joined) kept[n] = addend[t], kept_weights[n++] = A(1);
          sum(Out[t], kept.data(), kept_weights.data(), static_cast<int64_t>(n), Out.width());
        }
      });
    });
  });
}

void combine_backward(Stream& stream, const Tensor& dy, const Tensor& dweights, const Tensor& dout, const Tensor& y,
                      const Tensor& rows, const Tensor&, const Tensor& weights) {
  stream.run([=] {
    with_dtype<float, bf16, double>("combine", y.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Rows<T> Y(y), DY(dy), DOut(dout);
      const int64_t slots = rows.dim(1);
      require_shape("combine", "dout", dout, {rows.dim(0), Y.width()});
      require_shape("combine", "dy", dy, y.shape());
      require_flat("combine", "weights", weights, rows.numel());
      require_flat("combine", "dweights", dweights, rows.numel());
      const int64_t* row = checked_indices<int64_t>("combine", "rows", rows, -1, Y.count());
      const A* w = weights.data<A>();
      A* dw = dweights.data<A>();
      std::fill_n(dw, rows.numel(), A(0));
      std::vector<int64_t> slot_of(Y.count(), -1);
      for (int64_t slot = 0; slot < rows.numel(); ++slot)
        if (row[slot] >= 0) slot_of[row[slot]] = slot;
      const auto scale_and_dot = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scale_and_dot;
      parallel_for(Y.count(), row_grain(Y.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t slot = slot_of[r];
          if (slot < 0)
            std::fill_n(DY[r], DY.width(), T(0.0f));
          else
            dw[slot] = scale_and_dot(DY[r], w[slot], DOut[slot / slots], Y[r], Y.width());
        }
      });
    });
  });
}

void scatter(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index) {
  stream.run([=] {
    with_dtype<float, bf16, double>("scatter", x.dtype(), [&]<class T>() {
      const Rows<T> X(x), Out(out);
      require_shape("scatter", "x", x, {index.numel(), Out.width()});
      const int64_t* row = distinct_indices("scatter", "index", index, -1, Out.count());
      parallel_for(X.count(), row_grain(X.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          if (row[r] >= 0) std::copy_n(X[r], X.width(), Out[row[r]]);
      });
    });
  });
}

void gather_weighted(Stream& stream, const Tensor& out, const Tensor& x, const Tensor& index, const Tensor& scale) {
  stream.run([=] {
    if (!scale.defined()) return copy_rows("gather_weighted", "index", out, x, index, 0);
    with_dtype<float, bf16, double>("gather_weighted", x.dtype(), [&]<class T>() {
      const Rows<T> X(x), Out(out);
      require_shape("gather_weighted", "out", out, {index.numel(), X.width()});
      require_flat("gather_weighted", "scale", scale, index.numel());
      const int64_t* row = checked_indices<int64_t>("gather_weighted", "index", index, 0, X.count());
      const auto* factor = scale.data<accumulator_t<T>>();
      const auto scaled = choose<T>(v3::pointwise_loops, v4::pointwise_loops).scaled;
      parallel_for(Out.count(), row_grain(Out.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) scaled(Out[r], factor[r], X[row[r]], X.width());
      });
    });
  });
}

void row_dots(Stream& stream, const Tensor& out, const Tensor& a, const Tensor& b) {
  stream.run([=] {
    with_dtype<float, bf16, double>("row_dots", a.dtype(), [&]<class T>() {
      const Rows<T> A(a), B(b);
      require_shape("row_dots", "b", b, a.shape());
      require_flat("row_dots", "out", out, A.count());
      auto* y = out.data<accumulator_t<T>>();
      const auto dot = choose<T>(v3::pointwise_loops, v4::pointwise_loops).dot;
      parallel_for(A.count(), row_grain(A.width()), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) y[r] = dot(A[r], B[r], A.width());
      });
    });
  });
}

// Returns the distance in bytes between rows of x [R, D], which may be strided.
int64_t pitch_of(std::string_view op, const Tensor& x) {
  require(x.dim(1) <= 1 || x.strides()[1] == 1, "[", op, "] the last dimension of a tensor of shape ", x.shape(),
          " has stride ", x.strides()[1], "; expected 1");
  return x.strides()[0] * size_of(x.dtype());
}

// Calls f(r, place) in parallel for each of `rows` rows. `place` is the row's address in a window.
template <class F>
void for_each_place(std::string_view op, const Tensor& window, const Tensor& distances, const Tensor& runs,
                    int64_t rows, int64_t row_bytes, const F& f) {
  require_flat(op, "runs", runs, 3 * runs.dim(1));
  const int64_t *end = runs.data<int64_t>(), count = runs.dim(1), *shift = end + 2 * count;
  const int64_t last = count > 0 ? end[count - 1] : 0;
  require(last == rows, "[", op, "] the last run ends at ", last, "; expected ", rows, ", the number of rows");
  const int64_t* rank = checked_indices<int64_t>(op, "runs", runs.slice(0, 1, 2), 0, distances.numel());
  const int64_t* distance = distances.data<int64_t>();
  std::byte* const begin = static_cast<std::byte*>(window.raw());
  parallel_for(rows, row_grain(row_bytes), [&](int64_t first, int64_t past) {
    int64_t n = std::upper_bound(end, end + count, first) - end;
    for (int64_t r = first; r < past; ++r) {
      while (r >= end[n]) ++n;
      f(r, begin + distance[rank[n]] + (r + shift[n]) * row_bytes);
    }
  });
}

void put(Stream& stream, const Tensor& window, const Tensor& distances, const Tensor& runs, const Tensor& x,
         const Tensor& index) {
  stream.run([=] {
    const int64_t row_bytes = x.dim(1) * size_of(x.dtype()), rows = index.defined() ? index.numel() : x.dim(0);
    const int64_t pitch = pitch_of("put", x);
    const int64_t* from = index.defined() ? checked_indices<int64_t>("put", "index", index, 0, x.dim(0)) : nullptr;
    const auto* of_x = static_cast<const std::byte*>(x.raw());
    for_each_place("put", window, distances, runs, rows, row_bytes, [&](int64_t r, std::byte* place) {
      std::memcpy(place, of_x + (from ? from[r] : r) * pitch, row_bytes);
    });
  });
}

void pull(Stream& stream, const Tensor& out, const Tensor& window, const Tensor& distances, const Tensor& runs) {
  stream.run([=] {
    const int64_t row_bytes = out.dim(1) * size_of(out.dtype()), pitch = pitch_of("pull", out);
    auto* const of_out = static_cast<std::byte*>(out.raw());
    for_each_place("pull", window, distances, runs, out.dim(0), row_bytes,
                   [&](int64_t r, const std::byte* place) { std::memcpy(of_out + r * pitch, place, row_bytes); });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const PermuteKernels PermuteKernels::of_cpu{.gather = cpu::gather,
                                            .combine = cpu::combine,
                                            .combine_backward = cpu::combine_backward,
                                            .scatter = cpu::scatter,
                                            .gather_weighted = cpu::gather_weighted,
                                            .row_dots = cpu::row_dots,
                                            .put = cpu::put,
                                            .pull = cpu::pull};

}  // namespace hexad::kernels
