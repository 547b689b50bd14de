// All-gather attention (Llama 3, section 3.3.2): every rank gathers the keys and values of the whole sequences before
// it computes attention. Backward gathers them again, so that they need not be saved.
#include "parallel/cp/kinds.h"
#include "parallel/cp/sequence_rows.h"

namespace hexad::cp {

using device::Category;
using namespace autograd;
using namespace base;
using namespace kernels;

namespace {

struct KeysAndValues {
  Tensor k, v;  // [S * L, G, C] for S sequences of L tokens, in the order of the sequences
};

KeysAndValues gather(const Tensor& k, const Tensor& v, const ContextAttention& c, Stream& stream) {
  InFlight keys = gather_rows(k, *c.group, stream), values = gather_rows(v, *c.group, stream);
  KeysAndValues whole;
  stream.wait(keys.arrived);
  whole.k = in_sequence_order(keys.data, c.split, stream);
  keys = {};
  stream.wait(values.arrived);
  whole.v = in_sequence_order(values.data, c.split, stream);
  return whole;
}

// One half of the queries. shape.query_offset is the position of its first row.
struct Half {
  AttentionShape shape;
  Tensor first, last;
  int64_t begin, end;  // range of the half's local rows

  Tensor of(const Tensor& rows) const { return rows.slice(0, begin, end); }
};

Half half(int which, const ContextAttention& c) {
  const int64_t rows = c.split.half_rows();
  Half h{.shape = {.sequences = c.split.sequences,
                   .queries = c.split.piece_length(),
                   .keys = c.split.length,
                   .scale = c.scale,
                   .causal = c.causal,
                   .query_offset = c.split.piece_begin(c.split.rank, which),
                   .deterministic = c.deterministic,
                   .window = c.window,
                   .value_size = c.value_size},
         .first = {},
         .last = {},
         .begin = which * rows,
         .end = (which + 1) * rows};
  if (c.first.defined()) h.first = h.of(c.first);
  if (c.last.defined()) h.last = h.of(c.last);
  return h;
}

// Starts to sum `whole` over the ranks. The result is this rank's rows of the sum.
InFlight reduce_rows(const Tensor& whole, const ContextAttention& c, Stream& stream) {
  const Tensor rows = in_rank_order(whole, c.split, stream);
  const Tensor sum = Tensor::empty({c.split.rows(), whole.dim(1), whole.dim(2)}, whole.dtype(), whole.device(),
                                   Category::communication);
  return {sum, c.group->reduce_scatter(sum, rows, stream)};
}

void all_gather_backward(Backward& b, const Tensor& dout, const Saved& saved, const ContextAttention& c) {
  auto [q, k, v, out, log_sum_exp] = saved.get<5>();
  const auto& table = kernels::kernels(q.device());
  c.sinks.backward(b, dout, out, log_sum_exp);
  const Dtype acc = accumulator_dtype(k.dtype());
  const Tensor dq = Tensor::like(q);
  Tensor dk, dv;  // gradients of the keys and values of the whole sequences
  {
    const KeysAndValues whole = gather(k, v, c, b.stream);
    dk = Tensor::empty(whole.k.shape(), acc, k.device()), dv = Tensor::like(dk);
    table.pointwise.fill(b.stream, dk, 0);
    table.pointwise.fill(b.stream, dv, 0);
    const Tensor dk_part = Tensor::like(whole.k), dv_part = Tensor::like(whole.v);
    for (int i = 0; i < c.split.halves(); ++i) {
      const Half h = half(i, c);
      table.attention.backward(b.stream, {h.of(dq), dk_part, dv_part}, h.of(dout),
                               {.out = h.of(out),
                                .log_sum_exp = h.of(log_sum_exp),
                                .q = h.of(q),
                                .k = whole.k,
                                .v = whole.v,
                                .first = h.first,
                                .last = h.last},
                               h.shape);
      table.pointwise.axpy(b.stream, dk, 1, dk_part);
      table.pointwise.axpy(b.stream, dv, 1, dv_part);
    }
  }
  const InFlight my_dk = reduce_rows(dk, c, b.stream), my_dv = reduce_rows(dv, c, b.stream);
  b.accumulate(0, dq);
  b.stream.wait(my_dk.arrived);
  b.accumulate(1, contiguous_as(my_dk.data, k.dtype(), b.stream));
  b.stream.wait(my_dv.arrived);
  b.accumulate(2, contiguous_as(my_dv.data, v.dtype(), b.stream));
}

}  // namespace

Value all_gather_attention(Tape& tape, const Value& q, const Value& k, const Value& v, const ContextAttention& c) {
  const auto& kernel = kernels::kernels(q.device()).attention;
  const Tensor out = Tensor::empty(q.shape(), q.data.dtype(), q.device());
  const Tensor log_sum_exp =
      Tensor::empty({q.data.dim(0), q.data.dim(1)}, accumulator_dtype(q.data.dtype()), q.device());
  const KeysAndValues whole = gather(k.data, v.data, c, tape.stream);
  for (int i = 0; i < c.split.halves(); ++i) {
    const Half h = half(i, c);
    kernel.forward(tape.stream, h.of(out), h.of(log_sum_exp), h.of(q.data), whole.k, whole.v, h.first, h.last, h.shape);
  }
  c.sinks.add(tape.stream, out, log_sum_exp);
  return tape.record(
      "all_gather_attention", out, {q, k, v}, save(q.data, k.data, v.data, out, log_sum_exp),
      [c](Backward& b, const Tensor& dout, const Saved& s) { all_gather_backward(b, dout, s, c); }, c.sinks.weights());
}

}  // namespace hexad::cp
