// The gated delta rule on the CPU, in chunks. One task computes all value heads of one key head of one sequence.
#include <algorithm>
#include <cmath>

#include "framework/kernels/cpu/delta_chunk.h"
#include "framework/kernels/cpu/operands.h"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cpu {

using namespace base;
namespace {

void check(const DeltaRuleOperands& o, const SequenceRows& rows) {
  require(o.q.rank() == 3 && o.k.shape() == o.q.shape() && o.v.rank() == 3 && o.v.dim(0) == o.q.dim(0) &&
              o.q.dim(1) > 0 && o.v.dim(1) % o.q.dim(1) == 0 && rows.sequences > 0 && o.q.dim(0) % rows.sequences == 0,
          "[delta_rule] q is ", o.q.shape(), ", k ", o.k.shape(), ", v ", o.v.shape(), ", with ", rows.sequences,
          " sequences; expected q and k [T, G, C], v [T, H, U], H a multiple of G, G > 0, at least one sequence, "
          "and T a multiple of the number of sequences");
  for (const auto& [name, t] : {std::pair{"q", o.q}, {"k", o.k}, {"v", o.v}})
    require_flat("delta_rule", name, t, t.numel());
  for (const auto& [name, t] : {std::pair{"log_decay", o.log_decay}, {"strength", o.strength}})
    require_flat("delta_rule", name, t, o.v.dim(0) * o.v.dim(1));
  if (o.first.defined()) require_flat("delta_rule", "first", o.first, o.v.dim(0));
}

// Operands of one call, with functions that read the part for one task.
template <class T>
struct Problem {
  using A = accumulator_t<T>;
  const DeltaRuleOperands& o;
  const int64_t begin, rows, groups, heads, size, values;
  const int32_t* const first;

  Problem(const DeltaRuleOperands& operands, const SequenceRows& r)
      : o(operands),
        begin(r.begin),
        rows(operands.q.dim(0) / r.sequences),
        groups(operands.q.dim(1)),
        heads(operands.v.dim(1)),
        size(operands.q.dim(2)),
        values(operands.v.dim(2)),
        first(operands.first.defined() ? operands.first.data<int32_t>() : nullptr) {
    const int64_t states = r.sequences * heads * size * values;
    if (o.state.defined()) require_flat("delta_rule", "state", o.state, states);
  }
  int64_t heads_of_key() const { return heads / groups; }
  int64_t state_size() const { return size * values; }
  bool resets(int64_t b, int64_t i) const { return first && first[b * rows + i] == begin + i; }
  // Returns the end of the chunk of sequence b that begins at row i. Only the first row of a chunk may be the first row
  // of a document.
  int64_t chunk_end(int64_t b, int64_t i) const {
    int64_t end = i + 1;
    while (end < std::min(rows, i + delta_chunk) && !resets(b, end)) ++end;
    return end;
  }

  // Rows [rows, C] of a head, divided by their norms and multiplied by a factor, and the inverse norms.
  struct Normalised {
    std::vector<A> x, inverse;
  };
  Normalised normalised(const Tensor& t, int64_t b, int64_t g, A factor) const {
    Normalised n{std::vector<A>(rows * size), std::vector<A>(rows)};
    const T* p = t.data<T>();
    for (int64_t i = 0; i < rows; ++i) {
      const T* from = p + ((b * rows + i) * groups + g) * size;
      A* to = n.x.data() + i * size;
      A squares = static_cast<A>(delta_norm_eps);
      for (int64_t c = 0; c < size; ++c) {
        to[c] = static_cast<A>(from[c]);
        squares += to[c] * to[c];
      }
      n.inverse[i] = 1 / std::sqrt(squares);
      for (int64_t c = 0; c < size; ++c) to[c] *= factor * n.inverse[i];
    }
    return n;
  }
  A query_factor() const { return 1 / std::sqrt(static_cast<A>(size)); }

  // Sets `chunk` to rows [i, end) of value head h of sequence b.
  void read(DeltaChunk<A>& chunk, const Normalised& q, const Normalised& k, int64_t b, int64_t h, int64_t i,
            int64_t end) const {
    const T* v = o.v.data<T>();
    const A *log_decay = o.log_decay.data<A>(), *strength = o.strength.data<A>();
    for (int64_t r = i; r < end; ++r) {
      const int64_t at = (b * rows + r) * heads + h;
      for (int64_t u = 0; u < values; ++u) chunk.v[(r - i) * values + u] = static_cast<A>(v[at * values + u]);
      chunk.log_decay[r - i] = log_decay[at], chunk.strength[r - i] = strength[at];
    }
    chunk.set(q.x.data() + i * size, k.x.data() + i * size, end - i);
  }
  // Sets S to the state of value head h before the first row of sequence b. The state is zero if the operand `state` is
  // undefined.
  void first_state(A* S, int64_t b, int64_t h) const {
    if (!o.state.defined()) return std::fill(S, S + state_size(), A{0});
    const A* from = o.state.data<A>() + (b * heads + h) * state_size();
    std::copy(from, from + state_size(), S);
  }
};

template <class T>
void forward_task(const Problem<T>& p, T* out, accumulator_t<T>* last_state, int64_t b, int64_t g) {
  using A = accumulator_t<T>;
  const auto q = p.normalised(p.o.q, b, g, p.query_factor()), k = p.normalised(p.o.k, b, g, A{1});
  DeltaChunk<A> chunk(p.size, p.values);
  std::vector<A> S(p.state_size()), y(p.values);
  for (int64_t h = g * p.heads_of_key(); h < (g + 1) * p.heads_of_key(); ++h) {
    p.first_state(S.data(), b, h);
    for (int64_t i = 0; i < p.rows;) {
      const int64_t end = p.chunk_end(b, i);
      if (p.resets(b, i)) std::fill(S.begin(), S.end(), A{0});
      p.read(chunk, q, k, b, h, i, end);
      chunk.solve(S.data());
      for (int64_t t = 0; t < end - i; ++t) {
        chunk.output(y.data(), t, S.data());
        T* to = out + ((b * p.rows + i + t) * p.heads + h) * p.values;
        for (int64_t u = 0; u < p.values; ++u) to[u] = static_cast<T>(y[u]);
      }
      chunk.advance(S.data());
      i = end;
    }
    std::copy(S.begin(), S.end(), last_state + (b * p.heads + h) * p.state_size());
  }
}

void forward(Stream& stream, const Tensor& out, const Tensor& last_state, const DeltaRuleOperands& operands,
             const SequenceRows& rows) {
  stream.run([=] {
    check(operands, rows);
    require_flat("delta_rule", "out", out, operands.v.numel());
    with_dtype<float, bf16, double>("delta_rule", operands.q.dtype(), [&]<class T>() {
      const Problem<T> p(operands, rows);
      require_flat("delta_rule", "last_state", last_state, rows.sequences * p.heads * p.state_size());
      T* y = out.data<T>();
      auto* states = last_state.data<accumulator_t<T>>();
      parallel_for(rows.sequences * p.groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) forward_task(p, y, states, i / p.groups, i % p.groups);
      });
    });
  });
}

// Results and incoming gradients of backward, as pointers.
template <class T>
struct Results {
  using A = accumulator_t<T>;
  T *dq, *dk, *dv;
  A *dlog_decay, *dstrength, *dstate;  // dstate may be null
  const T* dout;
  const A* dlast_state;  // null: counts as zero
};

// Writes the gradients of a head's rows, given the gradients of its normalised rows.
template <class T, class A>
void store_through_norm(T* out, const std::vector<A>& gradient, const typename Problem<T>::Normalised& x, A factor,
                        const Problem<T>& p, int64_t b, int64_t g) {
  for (int64_t i = 0; i < p.rows; ++i) {
    const A *dy = gradient.data() + i * p.size, *y = x.x.data() + i * p.size;
    A dot = 0;
    for (int64_t c = 0; c < p.size; ++c) dot += y[c] * dy[c];
    T* to = out + ((b * p.rows + i) * p.groups + g) * p.size;
    for (int64_t c = 0; c < p.size; ++c) to[c] = static_cast<T>(x.inverse[i] * (factor * dy[c] - y[c] * dot / factor));
  }
}

// Computes first the state before each chunk, then the gradients, from the last chunk to the first.
template <class T>
void backward_task(const Problem<T>& p, const Results<T>& r, int64_t b, int64_t g) {
  using A = accumulator_t<T>;
  const auto q = p.normalised(p.o.q, b, g, p.query_factor()), k = p.normalised(p.o.k, b, g, A{1});
  const size_t elements = p.state_size();
  DeltaChunk<A> chunk(p.size, p.values);
  std::vector<A> dq(q.x.size()), dk(k.x.size()), dS(elements), dout(delta_chunk * p.values);
  DeltaChunkGradients<A> of_chunk{nullptr, nullptr, std::vector<A>(delta_chunk * p.values), std::vector<A>(delta_chunk),
                                  std::vector<A>(delta_chunk)};
  std::vector<int64_t> begins;  // first row of each chunk, then the number of rows
  for (int64_t i = 0; i < p.rows; i = p.chunk_end(b, i)) begins.push_back(i);
  begins.push_back(p.rows);
  const size_t chunks = begins.size() - 1;
  std::vector<A> states((chunks + 1) * elements);
  for (int64_t h = g * p.heads_of_key(); h < (g + 1) * p.heads_of_key(); ++h) {
    p.first_state(states.data(), b, h);
    for (size_t n = 0; n < chunks; ++n) {
      A *S = states.data() + n * elements, *next = S + elements;
      if (p.resets(b, begins[n])) std::fill(S, next, A{0});
      p.read(chunk, q, k, b, h, begins[n], begins[n + 1]);
      chunk.solve(S);
      std::copy(S, next, next);
      chunk.advance(next);
    }
    if (r.dlast_state)
      std::copy_n(r.dlast_state + (b * p.heads + h) * p.state_size(), elements, dS.begin());
    else
      std::fill(dS.begin(), dS.end(), A{0});
    for (size_t n = chunks; n-- > 0;) {
      const int64_t i = begins[n], end = begins[n + 1];
      const A* S = states.data() + n * elements;
      p.read(chunk, q, k, b, h, i, end);
      chunk.solve(S);
      for (int64_t t = i; t < end; ++t)
        for (int64_t u = 0; u < p.values; ++u)
          dout[(t - i) * p.values + u] = static_cast<A>(r.dout[((b * p.rows + t) * p.heads + h) * p.values + u]);
      of_chunk.dq = dq.data() + i * p.size, of_chunk.dk = dk.data() + i * p.size;
      chunk.backward(of_chunk, dout.data(), S, dS.data());
      if (p.resets(b, i)) {
        std::fill(dS.begin(), dS.end(), A{0});
        of_chunk.dlog[0] = 0;  // the exact gradient is zero, because the state was reset
      }
      for (int64_t t = i; t < end; ++t) {
        const int64_t at = (b * p.rows + t) * p.heads + h;
        r.dlog_decay[at] = of_chunk.dlog[t - i], r.dstrength[at] = of_chunk.dwrite[t - i];
        for (int64_t u = 0; u < p.values; ++u)
          r.dv[at * p.values + u] = static_cast<T>(of_chunk.dv[(t - i) * p.values + u]);
      }
    }
    if (r.dstate) std::copy(dS.begin(), dS.end(), r.dstate + (b * p.heads + h) * p.state_size());
  }
  store_through_norm<T, A>(r.dq, dq, q, p.query_factor(), p, b, g);
  store_through_norm<T, A>(r.dk, dk, k, A{1}, p, b, g);
}

void backward(Stream& stream, const DeltaRuleGradients& g, const Tensor& dout, const Tensor& dlast_state,
              const DeltaRuleOperands& operands, const SequenceRows& rows) {
  stream.run([=] {
    check(operands, rows);
    for (const auto& [name, t, count] : {std::tuple{"dq", g.dq, operands.q.numel()},
                                         {"dk", g.dk, operands.q.numel()},
                                         {"dv", g.dv, operands.v.numel()},
                                         {"dout", dout, operands.v.numel()},
                                         {"dlog_decay", g.dlog_decay, operands.strength.numel()},
                                         {"dstrength", g.dstrength, operands.strength.numel()}})
      require_flat("delta_rule", name, t, count);
    with_dtype<float, bf16, double>("delta_rule", operands.q.dtype(), [&]<class T>() {
      using A = accumulator_t<T>;
      const Problem<T> p(operands, rows);
      const int64_t states = rows.sequences * p.heads * p.state_size();
      for (const auto& [name, t] : {std::pair{"dstate", g.dstate}, {"dlast_state", dlast_state}})
        if (t.defined()) require_flat("delta_rule", name, t, states);
      const Results<T> r{.dq = g.dq.data<T>(),
                         .dk = g.dk.data<T>(),
                         .dv = g.dv.data<T>(),
                         .dlog_decay = g.dlog_decay.data<A>(),
                         .dstrength = g.dstrength.data<A>(),
                         .dstate = g.dstate.defined() ? g.dstate.data<A>() : nullptr,
                         .dout = dout.data<T>(),
                         .dlast_state = dlast_state.defined() ? dlast_state.data<A>() : nullptr};
      parallel_for(rows.sequences * p.groups, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) backward_task(p, r, i / p.groups, i % p.groups);
      });
    });
  });
}

}  // namespace
}  // namespace hexad::kernels::cpu

namespace hexad::kernels {

const DeltaRuleKernels DeltaRuleKernels::of_cpu{.forward = cpu::forward, .backward = cpu::backward};

}  // namespace hexad::kernels
