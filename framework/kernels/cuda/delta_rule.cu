// The gated delta rule, token by token. This implementation is simple and slow. A block computes one value head (in
// backward, all value heads of one key head) of one sequence. The state is in global memory. A thread computes whole
// columns of the state or, in one part of backward, whole rows.
#include "framework/kernels/cuda/vectors.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 128;
constexpr int64_t kept_tokens = 64;  // number of tokens whose states backward keeps in memory at a time

template <class D>
struct Rule {
  const D *q, *k, *v;
  const sum_t<D>*log_decay, *strength, *state;  // state may be null
  const int32_t* first;                         // may be null
  int64_t sequences, begin, rows, groups, heads, size, values;

  __device__ const D* query(int64_t t, int64_t g) const { return q + (t * groups + g) * size; }
  __device__ const D* key(int64_t t, int64_t g) const { return k + (t * groups + g) * size; }
  __device__ bool resets(int64_t b, int64_t i) const { return first && first[b * rows + i] == begin + i; }
};

template <class D>
__device__ sum_t<D> inverse_norm(const D* x, int64_t size) {
  using A = sum_t<D>;
  A squares = static_cast<A>(delta_norm_eps);
  for (int64_t c = 0; c < size; ++c) squares += to<A>(x[c]) * to<A>(x[c]);
  return 1 / sqrt(squares);
}

// Multiplies column u of the state S by the decay of row i of sequence b. If the row begins a document, sets the column
// to zero instead. Returns v - k S for this column.
template <class D>
__device__ sum_t<D> decay_column(sum_t<D>* S, const Rule<D>& r, int64_t b, int64_t i, int64_t h, int64_t u,
                                 sum_t<D> key_factor) {
  using A = sum_t<D>;
  const int64_t t = b * r.rows + i;
  const D* k = r.key(t, h / (r.heads / r.groups));
  const A decay = r.resets(b, i) ? A(0) : exp(r.log_decay[t * r.heads + h]);
  A read = 0;
  for (int64_t c = 0; c < r.size; ++c) {
    const A s = decay == 0 ? A(0) : S[c * r.values + u] * decay;
    S[c * r.values + u] = s;
    read += to<A>(k[c]) * key_factor * s;
  }
  return to<A>(r.v[(t * r.heads + h) * r.values + u]) - read;
}

template <class D>
__global__ void __launch_bounds__(threads) forward_kernel(D* out, sum_t<D>* last_state, Rule<D> r) {
  using A = sum_t<D>;
  const int64_t b = blockIdx.x / r.heads, h = blockIdx.x % r.heads, g = h / (r.heads / r.groups);
  const int64_t base = int64_t{blockIdx.x} * r.size * r.values;
  A* S = last_state + base;
  const A scale = 1 / sqrt(static_cast<A>(r.size));
  for (int64_t u = threadIdx.x; u < r.values; u += threads) {
    for (int64_t c = 0; c < r.size; ++c) S[c * r.values + u] = r.state ? r.state[base + c * r.values + u] : A(0);
    for (int64_t i = 0; i < r.rows; ++i) {
      const int64_t t = b * r.rows + i;
      const D *q = r.query(t, g), *k = r.key(t, g);
      const A q_factor = scale * inverse_norm(q, r.size), k_factor = inverse_norm(k, r.size);
      const A written = r.strength[t * r.heads + h] * decay_column(S, r, b, i, h, u, k_factor);
      A y = 0;
      for (int64_t c = 0; c < r.size; ++c) {
        const A s = S[c * r.values + u] + to<A>(k[c]) * k_factor * written;
        S[c * r.values + u] = s;
        y += to<A>(q[c]) * q_factor * s;
      }
      out[(t * r.heads + h) * r.values + u] = to<D>(y);
    }
  }
}

// Results and incoming gradients of backward, and scratch memory.
template <class D>
struct Back {
  D *dq, *dk, *dv;
  sum_t<D>*dlog_decay, *dstrength, *dstate;  // dstate may be null
  const D* dout;
  const sum_t<D>* dlast_state;  // null: counts as zero
  sum_t<D>*sums_q, *sums_k;     // [T, G, C]: gradients of the normalised queries and keys
  sum_t<D>* starts;             // [blocks, parts, C, U]: state before each part of kept_tokens tokens
  sum_t<D>* decayed;            // [blocks, kept_tokens, C, U]: states in a part, after the decay
  sum_t<D>* gradient;           // [blocks, C, U]: gradient of the state
  sum_t<D>* columns;            // [blocks, 3, U]: v - k S, gradient of strength * (v - k S), addends of dlog_decay
  int64_t parts;
};

// Advances column u of the state S over rows [from, end) of sequence b. Stores the column after the decay of each of
// these rows in `decayed` if `decayed` is not null.
template <class D>
__device__ void run_column(sum_t<D>* S, sum_t<D>* decayed, const Rule<D>& r, int64_t b, int64_t h, int64_t from,
                           int64_t end, int64_t u) {
  using A = sum_t<D>;
  const int64_t elements = r.size * r.values;
  for (int64_t i = from; i < end; ++i) {
    const int64_t t = b * r.rows + i;
    const D* k = r.key(t, h / (r.heads / r.groups));
    const A factor = inverse_norm(k, r.size);
    const A written = r.strength[t * r.heads + h] * decay_column(S, r, b, i, h, u, factor);
    for (int64_t c = 0; c < r.size; ++c) {
      const int64_t e = c * r.values + u;
      if (decayed) decayed[(i - from) * elements + e] = S[e];
      S[e] += to<A>(k[c]) * factor * written;
    }
  }
}

// Computes the gradients of token i of sequence b and value head h. Adds the gradients of the query and the key to
// sums_q and sums_k. `state` is the state after the decay. On entry, dS is the gradient of the state after the token;
// on return, dS is the gradient of the state before the token.
template <class D>
__device__ void token_backward(const Back<D>& o, const Rule<D>& r, const sum_t<D>* state, sum_t<D>* dS,
                               sum_t<D>* columns, int64_t b, int64_t i, int64_t h) {
  using A = sum_t<D>;
  const int64_t t = b * r.rows + i, at = t * r.heads + h, g = h / (r.heads / r.groups), U = r.values;
  const D *q = r.query(t, g), *k = r.key(t, g), *dout = o.dout + at * U;
  const A q_factor = inverse_norm(q, r.size) / sqrt(static_cast<A>(r.size)), k_factor = inverse_norm(k, r.size);
  const A strength = r.strength[at];
  A *errors = columns, *dwrite = columns + U, *ddecay = columns + 2 * U;
  for (int64_t u = threadIdx.x; u < U; u += threads) {
    A read = 0, sum = 0;
    const A dy = to<A>(dout[u]);
    for (int64_t c = 0; c < r.size; ++c) {
      const A key = to<A>(k[c]) * k_factor;
      read += key * state[c * U + u];
      dS[c * U + u] += to<A>(q[c]) * q_factor * dy;
      sum += key * dS[c * U + u];
    }
    errors[u] = to<A>(r.v[at * U + u]) - read;
    dwrite[u] = sum;
    o.dv[at * U + u] = to<D>(strength * sum);
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < r.size; c += threads) {
    const A key = to<A>(k[c]) * k_factor;
    A dq = 0, dk = 0;
    for (int64_t u = 0; u < U; ++u) {
      const A written = strength * errors[u];
      dq += (state[c * U + u] + key * written) * to<A>(dout[u]);
      dk += written * dS[c * U + u] - strength * dwrite[u] * state[c * U + u];
    }
    o.sums_q[(t * r.groups + g) * r.size + c] += dq;
    o.sums_k[(t * r.groups + g) * r.size + c] += dk;
  }
  __syncthreads();
  const A decay = r.resets(b, i) ? A(0) : exp(r.log_decay[at]);
  for (int64_t u = threadIdx.x; u < U; u += threads) {
    A sum = 0;
    for (int64_t c = 0; c < r.size; ++c) {
      const A ds = dS[c * U + u] - to<A>(k[c]) * k_factor * strength * dwrite[u];
      sum += state[c * U + u] * ds;
      dS[c * U + u] = ds * decay;
    }
    ddecay[u] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    A of_strength = 0, of_decay = 0;
    for (int64_t u = 0; u < U; ++u) {
      of_strength += dwrite[u] * errors[u];
      of_decay += ddecay[u];
    }
    o.dstrength[at] = of_strength, o.dlog_decay[at] = of_decay;
  }
  __syncthreads();
}

// Writes the gradient of row x from dy, the gradient of factor * x / |x|.
template <class D>
__device__ void store_through_norm(D* dx, const sum_t<D>* dy, const D* x, int64_t size, sum_t<D> factor) {
  using A = sum_t<D>;
  const A inverse = inverse_norm(x, size);
  A dot = 0;
  for (int64_t c = 0; c < size; ++c) dot += to<A>(x[c]) * inverse * dy[c];
  for (int64_t c = 0; c < size; ++c) dx[c] = to<D>(factor * inverse * (dy[c] - to<A>(x[c]) * inverse * dot));
}

// One block computes all value heads of one key head of one sequence.
template <class D>
__global__ void __launch_bounds__(threads) backward_kernel(Back<D> o, Rule<D> r) {
  using A = sum_t<D>;
  const int64_t block = blockIdx.x, b = block / r.groups, g = block % r.groups, shared = r.heads / r.groups;
  const int64_t elements = r.size * r.values;
  A *starts = o.starts + block * o.parts * elements, *decayed = o.decayed + block * kept_tokens * elements;
  A *dS = o.gradient + block * elements, *columns = o.columns + block * 3 * r.values;
  for (int64_t i = threadIdx.x; i < r.rows * r.size; i += threads) {
    const int64_t e = ((b * r.rows + i / r.size) * r.groups + g) * r.size + i % r.size;
    o.sums_q[e] = o.sums_k[e] = 0;
  }
  for (int64_t h = g * shared; h < (g + 1) * shared; ++h) {
    const int64_t base = (b * r.heads + h) * elements;
    // Computes the state before each part. dS serves as scratch memory for the current state.
    for (int64_t u = threadIdx.x; u < r.values; u += threads) {
      for (int64_t c = 0; c < r.size; ++c) dS[c * r.values + u] = r.state ? r.state[base + c * r.values + u] : A(0);
      for (int64_t part = 0; part < o.parts; ++part) {
        const int64_t from = part * kept_tokens, end = from + kept_tokens < r.rows ? from + kept_tokens : r.rows;
        for (int64_t c = 0; c < r.size; ++c) starts[part * elements + c * r.values + u] = dS[c * r.values + u];
        run_column(dS, static_cast<A*>(nullptr), r, b, h, from, end, u);
      }
      for (int64_t c = 0; c < r.size; ++c)
        dS[c * r.values + u] = o.dlast_state ? o.dlast_state[base + c * r.values + u] : A(0);
    }
    for (int64_t part = o.parts; part-- > 0;) {
      const int64_t from = part * kept_tokens, end = from + kept_tokens < r.rows ? from + kept_tokens : r.rows;
      for (int64_t u = threadIdx.x; u < r.values; u += threads)
        run_column(starts + part * elements, decayed, r, b, h, from, end, u);
      __syncthreads();
      for (int64_t i = end; i-- > from;) token_backward(o, r, decayed + (i - from) * elements, dS, columns, b, i, h);
    }
    for (int64_t u = threadIdx.x; o.dstate && u < r.values; u += threads)
      for (int64_t c = 0; c < r.size; ++c) o.dstate[base + c * r.values + u] = dS[c * r.values + u];
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < r.rows; i += threads) {
    const int64_t t = b * r.rows + i, at = (t * r.groups + g) * r.size;
    store_through_norm(o.dq + at, o.sums_q + at, r.query(t, g), r.size, 1 / sqrt(static_cast<A>(r.size)));
    store_through_norm(o.dk + at, o.sums_k + at, r.key(t, g), r.size, A(1));
  }
}

template <class T>
Rule<device_t<T>> rule_of(const DeltaRuleOperands& o, const SequenceRows& rows) {
  using A = accumulator_t<T>;
  require(o.q.rank() == 3 && o.k.shape() == o.q.shape() && o.v.rank() == 3 && o.v.dim(0) == o.q.dim(0) &&
              o.q.dim(1) > 0 && o.v.dim(1) % o.q.dim(1) == 0 && rows.sequences > 0 && o.q.dim(0) % rows.sequences == 0,
          "[delta_rule] q is ", o.q.shape(), ", k ", o.k.shape(), ", v ", o.v.shape(), ", with ", rows.sequences,
          " sequences; expected q and k [T, G, C], v [T, H, U], H a multiple of G, G > 0, at least one sequence, "
          "and T a multiple of the number of sequences");
  const int64_t gates = o.v.dim(0) * o.v.dim(1);
  for (const auto& [name, t] : {std::pair{"q", o.q}, {"k", o.k}, {"v", o.v}})
    require_flat("delta_rule", name, t, t.numel());
  for (const auto& [name, t] : {std::pair{"log_decay", o.log_decay}, {"strength", o.strength}})
    require_flat("delta_rule", name, t, gates);
  if (o.state.defined())
    require_flat("delta_rule", "state", o.state, rows.sequences * o.v.dim(1) * o.q.dim(2) * o.v.dim(2));
  if (o.first.defined()) require_flat("delta_rule", "first", o.first, o.v.dim(0));
  return {.q = pointer<T>(o.q),
          .k = pointer<T>(o.k),
          .v = pointer<T>(o.v),
          .log_decay = pointer<A>(o.log_decay),
          .strength = pointer<A>(o.strength),
          .state = pointer<A>(o.state),
          .first = pointer<int32_t>(o.first),
          .sequences = rows.sequences,
          .begin = rows.begin,
          .rows = o.q.dim(0) / rows.sequences,
          .groups = o.q.dim(1),
          .heads = o.v.dim(1),
          .size = o.q.dim(2),
          .values = o.v.dim(2)};
}

void forward(Stream& stream, const Tensor& out, const Tensor& last_state, const DeltaRuleOperands& operands,
             const SequenceRows& rows) {
  require_flat("delta_rule", "out", out, operands.v.numel());
  with_dtype<float, bf16, double>("delta_rule", operands.q.dtype(), [&]<class T>() {
    const auto r = rule_of<T>(operands, rows);
    require_flat("delta_rule", "last_state", last_state, r.sequences * r.heads * r.size * r.values);
    launch("delta_rule", forward_kernel<device_t<T>>, r.sequences * r.heads, threads, stream, pointer<T>(out),
           pointer<accumulator_t<T>>(last_state), r);
  });
}

void backward(Stream& stream, const DeltaRuleGradients& g, const Tensor& dout, const Tensor& dlast_state,
              const DeltaRuleOperands& operands, const SequenceRows& rows) {
  with_dtype<float, bf16, double>("delta_rule", operands.q.dtype(), [&]<class T>() {
    using A = accumulator_t<T>;
    const auto r = rule_of<T>(operands, rows);
    const int64_t blocks = r.sequences * r.groups, states = r.sequences * r.heads * r.size * r.values;
    for (const auto& [name, t, count] : {std::tuple{"dq", g.dq, operands.q.numel()},
                                         {"dk", g.dk, operands.q.numel()},
                                         {"dv", g.dv, operands.v.numel()},
                                         {"dout", dout, operands.v.numel()},
                                         {"dlog_decay", g.dlog_decay, operands.strength.numel()},
                                         {"dstrength", g.dstrength, operands.strength.numel()}})
      require_flat("delta_rule", name, t, count);
    for (const auto& [name, t] : {std::pair{"dstate", g.dstate}, {"dlast_state", dlast_state}})
      if (t.defined()) require_flat("delta_rule", name, t, states);
    const auto scratch = [&](Shape shape) { return Tensor::empty(shape, dtype_of<A>, dout.device()); };
    const int64_t parts = (r.rows + kept_tokens - 1) / kept_tokens;
    const Tensor sums_q = scratch(operands.q.shape()), sums_k = scratch(operands.q.shape());
    const Tensor starts = scratch({blocks, parts, r.size, r.values});
    const Tensor decayed = scratch({blocks, kept_tokens, r.size, r.values});
    const Tensor gradient = scratch({blocks, r.size, r.values}), columns = scratch({blocks, 3, r.values});
    const Back<device_t<T>> back{.dq = pointer<T>(g.dq),
                                 .dk = pointer<T>(g.dk),
                                 .dv = pointer<T>(g.dv),
                                 .dlog_decay = pointer<A>(g.dlog_decay),
                                 .dstrength = pointer<A>(g.dstrength),
                                 .dstate = pointer<A>(g.dstate),
                                 .dout = pointer<T>(dout),
                                 .dlast_state = pointer<A>(dlast_state),
                                 .sums_q = pointer<A>(sums_q),
                                 .sums_k = pointer<A>(sums_k),
                                 .starts = pointer<A>(starts),
                                 .decayed = pointer<A>(decayed),
                                 .gradient = pointer<A>(gradient),
                                 .columns = pointer<A>(columns),
                                 .parts = parts};
    launch("delta_rule", backward_kernel<device_t<T>>, blocks, threads, stream, back, r);
  });
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const DeltaRuleKernels DeltaRuleKernels::of_cuda{.forward = cuda::forward, .backward = cuda::backward};

}  // namespace hexad::kernels
