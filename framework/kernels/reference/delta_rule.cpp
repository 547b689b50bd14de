// The gated delta rule, token by token (Yang et al. 2024, eq. 10).
#include <algorithm>
#include <cmath>

#include "framework/kernels/kernel_table.h"
#include "framework/kernels/reference/array.h"

namespace hexad::kernels::reference {
namespace {

using Matrix = std::vector<double>;  // a state [C, U], row-major

// Operands of one call. Queries and keys are normalised.
struct Rule {
  Array Q, K, V, G, B, first;
  std::vector<double> q_norm, k_norm;  // 1 / |q| and 1 / |k| of each row and head
  int64_t sequences, begin, rows, heads, groups, size, values;

  Rule(const DeltaRuleOperands& o, const SequenceRows& r)
      : Q(load(o.q)),
        K(load(o.k)),
        V(load(o.v)),
        G(load(o.log_decay)),
        B(load(o.strength)),
        first(o.first.defined() ? load(o.first) : Array{0, 0, {}}),
        sequences(r.sequences),
        begin(r.begin),
        rows(o.q.dim(0) / r.sequences),
        heads(o.v.dim(1)),
        groups(o.q.dim(1)),
        size(o.q.dim(2)),
        values(o.v.dim(2)) {
    q_norm = normalise(Q, scale());
    k_norm = normalise(K, 1);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }

  // Multiplies each row of x by `factor` / norm of the row. Returns 1 / norm of each row.
  static std::vector<double> normalise(Array& x, double factor) {
    std::vector<double> inverse;
    for (int64_t r = 0; r < x.rows; ++r) {
      double squares = delta_norm_eps;
      for (int64_t c = 0; c < x.columns; ++c) squares += x(r, c) * x(r, c);
      inverse.push_back(1 / std::sqrt(squares));
      for (int64_t c = 0; c < x.columns; ++c) x(r, c) *= factor * inverse.back();
    }
    return inverse;
  }
  // Replaces dy, the gradient of y = normalise(x), by the gradient of x.
  static void through_norm(Array& dy, const Array& y, const std::vector<double>& inverse, double factor) {
    for (int64_t r = 0; r < y.rows; ++r) {
      double dot = 0;
      for (int64_t c = 0; c < y.columns; ++c) dot += y(r, c) * dy(r, c);
      for (int64_t c = 0; c < y.columns; ++c) dy(r, c) = inverse[r] * (factor * dy(r, c) - y(r, c) * dot / factor);
    }
  }

  int64_t key_row(int64_t t, int64_t h) const { return t * groups + h / (heads / groups); }
  bool resets(int64_t b, int64_t i) const { return first.size() > 0 && index_at(first, b * rows + i) == begin + i; }

  // Multiplies the state by the decay of row i of sequence b. If the row begins a document, sets the state to zero
  // instead. Returns e[U] = v - k S for the new state.
  std::vector<double> decay(Matrix& S, int64_t b, int64_t i, int64_t h) const {
    const int64_t t = b * rows + i, key = key_row(t, h);
    for (double& s : S) s *= resets(b, i) ? 0 : std::exp(G(t, h));
    std::vector<double> e(values);
    for (int64_t u = 0; u < values; ++u) {
      e[u] = V(t * heads + h, u);
      for (int64_t c = 0; c < size; ++c) e[u] -= K(key, c) * S[c * values + u];
    }
    return e;
  }
  // Adds k^T (strength * e) to the state.
  void write(Matrix& S, const std::vector<double>& e, int64_t t, int64_t h) const {
    for (int64_t c = 0; c < size; ++c)
      for (int64_t u = 0; u < values; ++u) S[c * values + u] += K(key_row(t, h), c) * B(t, h) * e[u];
  }
};

Matrix matrix_of(const Array& states, int64_t index, int64_t elements) {
  const auto at = states.values.begin() + index * elements;
  return {at, at + elements};
}

void forward(Stream& stream, const Tensor& out, const Tensor& last_state, const DeltaRuleOperands& operands,
             const SequenceRows& rows) {
  stream.run([=] {
    const Rule r(operands, rows);
    Array Y = zeros(out), L = load_or_zeros(operands.state, last_state);
    for (int64_t b = 0; b < r.sequences; ++b)
      for (int64_t h = 0; h < r.heads; ++h) {
        const int64_t elements = r.size * r.values, index = b * r.heads + h;
        Matrix S = matrix_of(L, index, elements);
        for (int64_t i = 0; i < r.rows; ++i) {
          const int64_t t = b * r.rows + i;
          const auto e = r.decay(S, b, i, h);
          r.write(S, e, t, h);
          for (int64_t c = 0; c < r.size; ++c)
            for (int64_t u = 0; u < r.values; ++u)
              Y(t * r.heads + h, u) += r.Q(r.key_row(t, h), c) * S[c * r.values + u];
        }
        std::copy(S.begin(), S.end(), L.values.begin() + index * elements);
      }
    store(out, Y);
    store(last_state, L);
  });
}

void backward(Stream& stream, const DeltaRuleGradients& g, const Tensor& dout, const Tensor& dlast_state,
              const DeltaRuleOperands& operands, const SequenceRows& rows) {
  stream.run([=] {
    const Rule r(operands, rows);
    const Array DY = load(dout);
    Array DQ = zeros(g.dq), DK = zeros(g.dk), DV = zeros(g.dv), DG = zeros(g.dlog_decay), DB = zeros(g.dstrength);
    const int64_t elements = r.size * r.values, U = r.values;
    Array states{r.sequences * r.heads, elements, std::vector<double>(r.sequences * r.heads * elements)};
    Array DS = states;
    if (operands.state.defined()) states.values = load(operands.state).values;
    if (dlast_state.defined()) DS.values = load(dlast_state).values;
    for (int64_t b = 0; b < r.sequences; ++b)
      for (int64_t h = 0; h < r.heads; ++h) {
        const int64_t index = b * r.heads + h;
        std::vector<Matrix> decayed, written;  // states of each row: after the decay, and after the write
        std::vector<std::vector<double>> errors;
        Matrix S = matrix_of(states, index, elements), dS = matrix_of(DS, index, elements);
        for (int64_t i = 0; i < r.rows; ++i) {
          errors.push_back(r.decay(S, b, i, h));
          decayed.push_back(S);
          r.write(S, errors.back(), b * r.rows + i, h);
          written.push_back(S);
        }
        for (int64_t i = r.rows; i-- > 0;) {
          const int64_t t = b * r.rows + i, key = r.key_row(t, h), value = t * r.heads + h;
          const double strength = r.B(t, h);
          for (int64_t c = 0; c < r.size; ++c)
            for (int64_t u = 0; u < U; ++u) {
              DQ(key, c) += written[i][c * U + u] * DY(value, u);
              dS[c * U + u] += r.Q(key, c) * DY(value, u);
            }
          std::vector<double> dwrite(U);  // gradient of strength * e
          for (int64_t c = 0; c < r.size; ++c)
            for (int64_t u = 0; u < U; ++u) {
              dwrite[u] += r.K(key, c) * dS[c * U + u];
              DK(key, c) += strength * errors[i][u] * dS[c * U + u];
            }
          for (int64_t u = 0; u < U; ++u) {
            DB(t, h) += dwrite[u] * errors[i][u];
            DV(value, u) = strength * dwrite[u];
          }
          for (int64_t c = 0; c < r.size; ++c)
            for (int64_t u = 0; u < U; ++u) {
              DK(key, c) -= strength * dwrite[u] * decayed[i][c * U + u];
              dS[c * U + u] -= r.K(key, c) * strength * dwrite[u];
            }
          const double decay = r.resets(b, i) ? 0 : std::exp(r.G(t, h));
          for (int64_t e = 0; e < elements; ++e) {
            DG(t, h) += decayed[i][e] * dS[e];
            dS[e] *= decay;
          }
        }
        std::copy(dS.begin(), dS.end(), DS.values.begin() + index * elements);
      }
    Rule::through_norm(DQ, r.Q, r.q_norm, r.scale());
    Rule::through_norm(DK, r.K, r.k_norm, 1);
    store(g.dq, DQ);
    store(g.dk, DK);
    store(g.dv, DV);
    store(g.dlog_decay, DG);
    store(g.dstrength, DB);
    if (g.dstate.defined()) store(g.dstate, DS);
  });
}

}  // namespace
}  // namespace hexad::kernels::reference

namespace hexad::kernels {

const DeltaRuleKernels DeltaRuleKernels::of_reference{.forward = reference::forward, .backward = reference::backward};

}  // namespace hexad::kernels
