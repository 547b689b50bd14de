#include <limits>

#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace kernels;
namespace {

using K = const KernelTable&;
constexpr int64_t heads = 4, key_heads = 2;

int64_t size_of_head(const Trial& r) { return std::min<int64_t>(r.size.width, 65); }

// Zeroes the elements of each head of x[T, H, C] whose index is at least `size`. Zeroes nothing if `size` is 0. Returns
// x.
Tensor with_zeros(const Tensor& x, int64_t size) {
  if (size == 0 || size >= x.dim(2)) return x;
  reference::Array a = reference::load(x);
  for (int64_t i = 0; i < a.size(); ++i)
    if (i % x.dim(2) >= size) a[i] = 0;
  reference::store(x, a);
  return x;
}

struct Problem {
  AttentionShape shape;
  Tensor q, k, v, first, last;

  // Makes random operands of shape s. Heads have size.width elements, but at most 65. Divides the sequences into
  // documents if `documents` is true.
  Problem(Trial& r, AttentionShape s, bool documents) : shape(s) {
    const int64_t c = size_of_head(r);
    shape.scale = 1 / std::sqrt(static_cast<double>(c));
    const int64_t q_rows = s.sequences * s.queries, k_rows = s.sequences * s.keys;
    q = r.normal({q_rows, heads, c}, Layout::strided_rows);
    k = r.normal({k_rows, key_heads, c}, Layout::strided_rows);
    v = with_zeros(r.normal({k_rows, key_heads, c}, Layout::strided_rows), s.value_size);
    if (!documents) return;
    // Each document has three positions, except that the last document of a sequence may be shorter.
    std::vector<int32_t> begins, ends;
    for (int64_t b = 0; b < s.sequences; ++b)
      for (int64_t i = 0; i < s.queries; ++i) {
        begins.push_back(static_cast<int32_t>(i / 3 * 3));
        ends.push_back(static_cast<int32_t>(std::min(s.queries, i / 3 * 3 + 3)));
      }
    first = r.values<int32_t>(begins, {s.sequences, s.queries});
    last = r.values<int32_t>(ends, {s.sequences, s.queries});
  }
};

void forward(K k, Trial& r, const AttentionShape& shape, bool documents) {
  const Problem p(r, shape, documents);
  k.attention.forward(r.stream, r.output(p.q.shape(), shape.keys), r.output({p.q.dim(0), heads}, r.acc(), p.q.dim(2)),
                      p.q, p.k, p.v, p.first, p.last, p.shape);
}

void backward(K k, Trial& r, const AttentionShape& shape, bool documents) {
  if (shape.queries == 1) return;  // a single key has probability one, so the gradients of q and k are rounding errors
  const Problem p(r, shape, documents);
  const Tensor out = r.scratch(p.q.shape(), r.dtype), log_sum_exp = r.scratch({p.q.dim(0), heads}, r.acc());
  reference_table.attention.forward(r.host_stream, out, log_sum_exp, p.q, p.k, p.v, p.first, p.last, p.shape);
  const Tensor dout = with_zeros(r.normal(p.q.shape()), p.shape.value_size);
  constexpr Layout strided = Layout::strided_rows;
  k.attention.backward(r.stream,
                       {.dq = r.output(p.q.shape(), r.dtype, shape.keys + p.q.dim(2), strided),
                        .dk = r.output(p.k.shape(), r.dtype, shape.queries * heads + p.q.dim(2), strided),
                        .dv = r.output(p.v.shape(), r.dtype, shape.queries * heads + p.q.dim(2), strided)},
                       dout, {out, log_sum_exp, p.q, p.k, p.v, p.first, p.last}, p.shape);
}

AttentionShape self(const Trial& r, bool causal) {
  const int64_t s = std::min<int64_t>(r.size.rows, 70);
  return {.sequences = 2, .queries = s, .keys = s, .scale = 1, .causal = causal};
}
AttentionShape windowed(const Trial& r, int64_t window) {
  AttentionShape s = self(r, true);
  s.window = window;
  return s;
}
// Returns a causal shape in which about the last third of each head of values is zero.
AttentionShape with_small_values(const Trial& r) {
  AttentionShape s = self(r, true);
  s.value_size = size_of_head(r) - size_of_head(r) / 3;
  return s;
}
AttentionShape cached(const Trial& r) {
  const int64_t s = std::min<int64_t>(r.size.rows, 70);
  return {.sequences = 2, .queries = s, .keys = s + 9, .scale = 1, .query_offset = 9};
}

// Merges a block. Every fifth pair of row and head has no visible key before the block. Every third pair has no visible
// key in the block.
void merge(K k, Trial& r) {
  const auto [t, c] = r.size;
  const Tensor log_sum_exp = r.update({t, heads}, r.acc(), 2), block_log_sum_exp = r.normal({t, heads}, r.acc());
  const auto hide = [](const Tensor& x, int64_t every) {
    reference::Array a = reference::load(x);
    for (int64_t i = 0; i < a.size(); i += every) a[i] = -std::numeric_limits<double>::infinity();
    reference::store(x, a);
  };
  hide(log_sum_exp, 5);
  hide(block_log_sum_exp, 3);
  k.attention.merge(r.stream, r.update({t, heads, c}, r.acc(), 2), log_sum_exp, r.normal({t, heads, c}),
                    block_log_sum_exp);
}

// Adds sinks. The first of the four heads of each row has no visible key, so the head's output becomes zero.
void sink_forward(K k, Trial& r) {
  const auto [t, c] = r.size;
  const Tensor log_sum_exp = r.update({t, heads}, r.acc(), 2);
  reference::Array a = reference::load(log_sum_exp);
  for (int64_t i = 0; i < a.size(); i += 4) a[i] = -std::numeric_limits<double>::infinity();
  reference::store(log_sum_exp, a);
  k.sink.forward(r.stream, r.update({t, heads, c}, r.dtype, 2), log_sum_exp, r.normal({heads}, r.acc()));
}

void sink_backward(K k, Trial& r) {
  const auto [t, c] = r.size;
  k.sink.backward(r.stream, r.output({t, heads}, r.acc(), c), r.normal({t, heads, c}), r.normal({t, heads, c}),
                  r.normal({t, heads}, r.acc()), r.normal({heads}, r.acc()));
}

}  // namespace

std::vector<Case> attention_cases() {
  const size_t f = entry(&KernelTable::attention, &AttentionKernels::forward);
  const size_t b = entry(&KernelTable::attention, &AttentionKernels::backward);
  return {
      {"attention_causal", f, [](K k, Trial& r) { forward(k, r, self(r, true), false); }},
      {"attention_bidirectional", f, [](K k, Trial& r) { forward(k, r, self(r, false), false); }},
      {"attention_documents", f, [](K k, Trial& r) { forward(k, r, self(r, true), true); }},
      {"attention_with_cache", f, [](K k, Trial& r) { forward(k, r, cached(r), false); }},
      {"attention_window", f, [](K k, Trial& r) { forward(k, r, windowed(r, 5), false); }},
      {"attention_window_of_documents", f, [](K k, Trial& r) { forward(k, r, windowed(r, 2), true); }},
      {"attention_small_values", f, [](K k, Trial& r) { forward(k, r, with_small_values(r), false); }},
      {"attention_small_values_of_documents", f, [](K k, Trial& r) { forward(k, r, with_small_values(r), true); }},
      {"attention_small_values_backward", b, [](K k, Trial& r) { backward(k, r, with_small_values(r), false); }},
      {"attention_small_values_of_documents_backward", b,
       [](K k, Trial& r) { backward(k, r, with_small_values(r), true); }},
      {"attention_window_backward", b, [](K k, Trial& r) { backward(k, r, windowed(r, 5), false); }},
      {"attention_causal_backward", b, [](K k, Trial& r) { backward(k, r, self(r, true), false); }},
      {"attention_bidirectional_backward", b, [](K k, Trial& r) { backward(k, r, self(r, false), false); }},
      {"attention_documents_backward", b, [](K k, Trial& r) { backward(k, r, self(r, false), true); }},
      {"attention_merge", entry(&KernelTable::attention, &AttentionKernels::merge), merge},
      {"sink_forward", entry(&KernelTable::sink, &SinkKernels::forward), sink_forward},
      {"sink_backward", entry(&KernelTable::sink, &SinkKernels::backward), sink_backward},
  };
}

}  // namespace hexad::tests
