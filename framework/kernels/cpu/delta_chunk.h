// The gated delta rule for a chunk of tokens of one value head (Yang et al. 2024, section 3: the WY form). All numbers
// are in the accumulator type A.
//
// Within a chunk, G_t is the sum of the log decays of its tokens up to t, E_ts = exp(G_t - G_s), and S is the state
// before the chunk. The vectors d_t that tokens write satisfy (1 + diag(strength) B) d = diag(strength) e, with B_ts =
// <k_t, k_s> * E_ts for s < t and e_t = v_t - exp(G_t) * k_t S. The output is exp(G_t) * q_t S + sum of P_ts * d_s over
// s <= t, with P_ts = <q_t, k_s> * E_ts.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/kernels/cpu/simd/pointwise_loops.h"

namespace hexad::kernels::cpu {

/// Number of tokens in a chunk.
inline constexpr int64_t delta_chunk = 64;

/// Loops over vectors of type A.
template <class A>
struct DeltaLoops {
  void (*axpy)(A*, double, const A*,
               int64_t) = choose<A>(v3::pointwise_loops, v4::pointwise_loops).axpy.template from<A>();
  A (*dot)(const A*, const A*, int64_t) = choose<A>(v3::pointwise_loops, v4::pointwise_loops).dot;
};

/// Gradients of a chunk's operands, with one row per token.
template <class A>
struct DeltaChunkGradients {
  A *dq, *dk;                       // [n, C]; gradients are added, because value heads share queries and keys
  std::vector<A> dv, dlog, dwrite;  // [n, U], [n], [n]
};

template <class A>
class DeltaChunk {
 public:
  /// Makes a chunk for heads of `size` elements and value heads of `values` elements.
  DeltaChunk(int64_t size, int64_t values)
      : v(room(values)),
        strength(room(1)),
        log_decay(room(1)),
        size_(size),
        values_(values),
        e_(room(values)),
        d_(room(values)),
        sums_(room(1)),
        b_(room(delta_chunk)),
        p_(room(delta_chunk)) {}

  /// Sets the `count` normalised queries and keys of the chunk. v, strength and log_decay must already be set.
  void set(const A* queries, const A* keys, int64_t count) {
    q_ = queries, k_ = keys, n_ = count;
    A sum = 0;
    for (int64_t t = 0; t < n_; ++t) sums_[t] = sum += log_decay[t];
    for (int64_t t = 0; t < n_; ++t)
      for (int64_t s = 0; s <= t; ++s) {
        const A decay = std::exp(sums_[t] - sums_[s]);
        b_[at(t, s)] = s < t ? loops_.dot(key(t), key(s), size_) * decay : A{0};
        p_[at(t, s)] = loops_.dot(query(t), key(s), size_) * decay;
      }
  }

  /// Computes e and the written vectors d for the state S before the chunk.
  void solve(const A* S) {
    for (int64_t t = 0; t < n_; ++t) {
      A *e = row(e_, t), *d = row(d_, t);
      std::copy(row(v, t), row(v, t) + values_, e);
      const A decay = std::exp(sums_[t]);
      for (int64_t c = 0; c < size_; ++c) loops_.axpy(e, -decay * key(t)[c], S + c * values_, values_);
      for (int64_t u = 0; u < values_; ++u) d[u] = strength[t] * e[u];
      for (int64_t s = 0; s < t; ++s) loops_.axpy(d, -strength[t] * b_[at(t, s)], row(d_, s), values_);
    }
  }

  /// Computes the output [U] of token t. solve() must have been called.
  void output(A* out, int64_t t, const A* S) const {
    std::fill(out, out + values_, A{0});
    const A decay = std::exp(sums_[t]);
    for (int64_t c = 0; c < size_; ++c) loops_.axpy(out, decay * query(t)[c], S + c * values_, values_);
    for (int64_t s = 0; s <= t; ++s) loops_.axpy(out, p_[at(t, s)], row(d_, s), values_);
  }

  /// Replaces S by the state after the chunk. solve() must have been called.
  void advance(A* S) const {
    const A decay = std::exp(sums_[n_ - 1]);
    for (int64_t i = 0; i < size_ * values_; ++i) S[i] *= decay;
    for (int64_t t = 0; t < n_; ++t) {
      const A rest = std::exp(sums_[n_ - 1] - sums_[t]);
      for (int64_t c = 0; c < size_; ++c) loops_.axpy(S + c * values_, rest * key(t)[c], row(d_, t), values_);
    }
  }

  /// Computes the gradients from dout [n, U], the gradients of the outputs. solve(S) must have been called. On entry,
  /// dS is the gradient of the state after the chunk; on return, it is the gradient of S.
  void backward(DeltaChunkGradients<A>& g, const A* dout, const A* S, A* dS) const {
    const int64_t last = n_ - 1;
    std::vector<A> dd(n_ * values_), dsums(n_);
    for (int64_t t = 0; t < n_; ++t) {
      A* dd_t = dd.data() + t * values_;
      const A *dout_t = dout + t * values_, rest = std::exp(sums_[last] - sums_[t]), decay = std::exp(sums_[t]);
      // Gradients through the contribution of token t to the state after the chunk.
      for (int64_t c = 0; c < size_; ++c) {
        loops_.axpy(dd_t, rest * key(t)[c], dS + c * values_, values_);
        const A dkey = rest * loops_.dot(dS + c * values_, row(d_, t), values_);
        g.dk[t * size_ + c] += dkey;
        dsums[t] -= dkey * key(t)[c];
        dsums[last] += dkey * key(t)[c];
        // Gradients through the contribution of S to the output of token t.
        const A dquery = decay * loops_.dot(S + c * values_, dout_t, values_);
        g.dq[t * size_ + c] += dquery;
        dsums[t] += dquery * query(t)[c];
      }
    }
    // Gradients through the contributions of tokens s to the outputs of tokens t.
    for (int64_t t = 0; t < n_; ++t)
      for (int64_t s = 0; s <= t; ++s) {
        loops_.axpy(dd.data() + s * values_, p_[at(t, s)], dout + t * values_, values_);
        const A dp = loops_.dot(dout + t * values_, row(d_, s), values_), x = dp * p_[at(t, s)];
        const A scaled = dp * std::exp(sums_[t] - sums_[s]);
        loops_.axpy(g.dq + t * size_, scaled, key(s), size_);
        loops_.axpy(g.dk + s * size_, scaled, query(t), size_);
        dsums[t] += x, dsums[s] -= x;
      }
    // Replaces dd by the gradient of diag(strength) e, the right-hand side of the equation for d.
    for (int64_t t = n_; t-- > 0;)
      for (int64_t s = 0; s < t; ++s)
        loops_.axpy(dd.data() + s * values_, -strength[t] * b_[at(t, s)], dd.data() + t * values_, values_);
    for (int64_t t = 0; t < n_; ++t) {
      const A *dr = dd.data() + t * values_, decay = std::exp(sums_[t]);
      g.dwrite[t] = loops_.dot(dr, row(e_, t), values_);
      for (int64_t u = 0; u < values_; ++u) g.dv[t * values_ + u] = strength[t] * dr[u];
      for (int64_t c = 0; c < size_; ++c) {
        const A dkey = -strength[t] * decay * loops_.dot(S + c * values_, dr, values_);
        g.dk[t * size_ + c] += dkey;
        dsums[t] += dkey * key(t)[c];
      }
      for (int64_t s = 0; s < t; ++s) {
        const A da = -loops_.dot(dr, row(d_, s), values_), b = b_[at(t, s)], x = da * strength[t] * b;
        const A scaled = da * strength[t] * std::exp(sums_[t] - sums_[s]);
        g.dwrite[t] += da * b;
        loops_.axpy(g.dk + t * size_, scaled, key(s), size_);
        loops_.axpy(g.dk + s * size_, scaled, key(t), size_);
        dsums[t] += x, dsums[s] -= x;
      }
    }
    state_gradient(dsums[last], dd.data(), dout, S, dS);
    A sum = 0;
    for (int64_t t = n_; t-- > 0;) g.dlog[t] = sum += dsums[t];
  }

  std::vector<A> v, strength, log_decay;  // [n, U], [n], [n]

 private:
  static std::vector<A> room(int64_t width) { return std::vector<A>(delta_chunk * width); }
  static int64_t at(int64_t t, int64_t s) { return t * delta_chunk + s; }
  const A* query(int64_t t) const { return q_ + t * size_; }
  const A* key(int64_t t) const { return k_ + t * size_; }
  A* row(std::vector<A>& x, int64_t t) const { return x.data() + t * values_; }
  const A* row(const std::vector<A>& x, int64_t t) const { return x.data() + t * values_; }

  // Replaces dS by the gradient of the state before the chunk. Adds to dlast the gradient of the logarithm of the
  // chunk's whole decay.
  void state_gradient(A& dlast, const A* dr, const A* dout, const A* S, A* dS) const {
    const A whole = std::exp(sums_[n_ - 1]);
    dlast += whole * loops_.dot(S, dS, size_ * values_);
    for (int64_t c = 0; c < size_; ++c) {
      A* dS_c = dS + c * values_;
      for (int64_t u = 0; u < values_; ++u) dS_c[u] *= whole;
      for (int64_t t = 0; t < n_; ++t) {
        const A decay = std::exp(sums_[t]);
        loops_.axpy(dS_c, decay * query(t)[c], dout + t * values_, values_);
        loops_.axpy(dS_c, -strength[t] * decay * key(t)[c], dr + t * values_, values_);
      }
    }
  }

  const int64_t size_, values_;
  const DeltaLoops<A> loops_;
  int64_t n_ = 0;
  const A *q_ = nullptr, *k_ = nullptr;
  std::vector<A> e_, d_;         // [n, U]
  std::vector<A> sums_, b_, p_;  // [n], [n, n], [n, n]
};

}  // namespace hexad::kernels::cpu
