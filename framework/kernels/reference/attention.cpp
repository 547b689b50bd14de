#include <limits>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

// Probabilities of the keys for one query row, and the row's log-sum-exp. If the row sees no key, the probabilities are
// zero and the log-sum-exp is -inf.
struct Attended {
  std::vector<double> p;
  double log_sum_exp;
};

struct Problem {
  AttentionShape shape;
  int64_t heads, key_heads, size;  // size: elements of a head
  Array Q, K, V, first, last;      // first and last are empty if undefined

  Problem(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& first_, const Tensor& last_,
          const AttentionShape& s)
      : shape(s),
        heads(q.dim(1)),
        key_heads(k.dim(1)),
        size(q.dim(2)),
        Q(load(q)),
        K(load(k)),
        V(load(v)),
        first(first_.defined() ? load(first_) : Array{}),
        last(last_.defined() ? load(last_) : Array{}) {}

  int64_t query_row(int64_t b, int64_t i, int64_t h) const { return (b * shape.queries + i) * heads + h; }
  int64_t key_row(int64_t b, int64_t j, int64_t h) const {
    return (b * shape.keys + j) * key_heads + h * key_heads / heads;
  }
  bool sees(int64_t b, int64_t i, int64_t j) const {
    if (shape.causal && j > i + shape.query_offset) return false;
    if (shape.window > 0 && j <= i + shape.query_offset - shape.window) return false;
    const int64_t row = b * shape.queries + i;
    return (first.values.empty() || j >= index_at(first, row)) && (last.values.empty() || j < index_at(last, row));
  }

  double score(int64_t query, int64_t key) const {
    double dot = 0;
    for (int64_t c = 0; c < size; ++c) dot += Q(query, c) * K(key, c);
    return shape.scale * dot;
  }

  Attended attend(int64_t b, int64_t i, int64_t h) const {
    constexpr double inf = std::numeric_limits<double>::infinity();
    Attended a{std::vector<double>(shape.keys, -inf), -inf};
    double largest = -inf, sum = 0;
    for (int64_t j = 0; j < shape.keys; ++j) {
      if (!sees(b, i, j)) continue;
      const double s = score(query_row(b, i, h), key_row(b, j, h));
      a.p[j] = s;
      largest = std::max(largest, s);
    }
    if (largest > -inf) {
      for (double s : a.p) sum += std::exp(s - largest);
      a.log_sum_exp = largest + std::log(sum);
    }
    for (double& s : a.p) s = s > -inf ? std::exp(s - a.log_sum_exp) : 0;
    return a;
  }

  template <class F>
  void for_each_query(F f) const {
    for (int64_t b = 0; b < shape.sequences; ++b)
      for (int64_t i = 0; i < shape.queries; ++i)
        for (int64_t h = 0; h < heads; ++h) f(b, i, h);
  }
};

void attention_forward(Stream& stream, const Tensor& out, const Tensor& log_sum_exp, const Tensor& q, const Tensor& k,
                       const Tensor& v, const Tensor& first, const Tensor& last, const AttentionShape& shape) {
  stream.run([=] {
    const Problem problem(q, k, v, first, last, shape);
    Array O = zeros(out), L = zeros(log_sum_exp);
    problem.for_each_query([&](int64_t b, int64_t i, int64_t h) {
      const Attended a = problem.attend(b, i, h);
      const int64_t row = problem.query_row(b, i, h);
      L[row] = a.log_sum_exp;
      for (int64_t j = 0; j < shape.keys; ++j) {
        if (!problem.sees(b, i, j)) continue;
        const int64_t key = problem.key_row(b, j, h);
        for (int64_t c = 0; c < problem.size; ++c) O(row, c) += a.p[j] * problem.V(key, c);
      }
    });
    store(out, O);
    store(log_sum_exp, L);
  });
}

// Computes the probabilities P from the saved log-sum-exp, then:
// - dV = P^T dO
// - dS = P * (dO V^T - <dO, O>)
// - dQ = scale * dS K
// - dK = scale * dS^T Q
void attention_backward(Stream& stream, const AttentionGradients& gradients, const Tensor& dout,
                        const AttentionSaved& saved, const AttentionShape& shape) {
  stream.run([=] {
    const auto& [dq, dk, dv] = gradients;
    const Problem problem(saved.q, saved.k, saved.v, saved.first, saved.last, shape);
    const Array DO = load(dout), O = load(saved.out), L = load(saved.log_sum_exp);
    Array DQ = zeros(dq), DK = zeros(dk), DV = zeros(dv);
    problem.for_each_query([&](int64_t b, int64_t i, int64_t h) {
      const int64_t row = problem.query_row(b, i, h);
      double mean = 0;
      for (int64_t c = 0; c < problem.size; ++c) mean += DO(row, c) * O(row, c);
      for (int64_t j = 0; j < shape.keys; ++j) {
        if (!problem.sees(b, i, j)) continue;
        const int64_t key = problem.key_row(b, j, h);
        const double p = std::exp(problem.score(row, key) - L[row]);
        double dp = 0;
        for (int64_t c = 0; c < problem.size; ++c) dp += DO(row, c) * problem.V(key, c);
        const double ds = shape.scale * p * (dp - mean);
        for (int64_t c = 0; c < problem.size; ++c) {
          DV(key, c) += p * DO(row, c);
          DQ(row, c) += ds * problem.K(key, c);
          DK(key, c) += ds * problem.Q(row, c);
        }
      }
    });
    store(dq, DQ);
    store(dk, DK);
    store(dv, DV);
  });
}

void attention_merge(Stream& stream, const Tensor& sum, const Tensor& sum_log_sum_exp, const Tensor& block,
                     const Tensor& block_log_sum_exp) {
  stream.run([=] {
    Array Sum = load(sum), L = load(sum_log_sum_exp);
    const Array Block = load(block), BlockL = load(block_log_sum_exp);
    for (int64_t r = 0; r < L.size(); ++r) {
      if (BlockL[r] == -std::numeric_limits<double>::infinity()) continue;
      const double top = std::max(L[r], BlockL[r]);
      const double both = top + std::log(std::exp(L[r] - top) + std::exp(BlockL[r] - top));
      for (int64_t c = 0; c < Sum.columns; ++c)
        Sum(r, c) = std::exp(L[r] - both) * Sum(r, c) + std::exp(BlockL[r] - both) * Block(r, c);
      L[r] = both;
    }
    store(sum, Sum);
    store(sum_log_sum_exp, L);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const AttentionKernels AttentionKernels::of_reference{.forward = reference::attention_forward,
                                                      .backward = reference::attention_backward,
                                                      .merge = reference::attention_merge};

}  // namespace hexad::kernels
