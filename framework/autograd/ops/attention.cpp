#include "framework/autograd/ops/ops.h"

namespace hexad::autograd {

using namespace base;

Value attention(Tape& tape, const Value& q, const Value& k, const Value& v, const Tensor& first, const Tensor& last,
                const AttentionShape& shape, const AttentionSinks& sinks) {
  require(q.data.rank() == 3 && k.data.rank() == 3 && k.shape() == v.shape() && q.data.dim(2) == k.data.dim(2),
          "[attention] q is ", q.shape(), ", k ", k.shape(), ", v ", v.shape(),
          "; expected rank 3 of each, equal head sizes, and equal shapes of k and v");
  const int64_t queries = shape.sequences * shape.queries, keys = shape.sequences * shape.keys;
  require(q.data.dim(0) == queries && k.data.dim(0) == keys, "[attention] q is ", q.shape(), ", k ", k.shape(),
          "; expected ", queries, " rows of q (", shape.sequences, " sequences of ", shape.queries, " queries) and ",
          keys, " rows of k (", shape.sequences, " sequences of ", shape.keys, " keys)");
  const int64_t heads = q.data.dim(1), key_heads = k.data.dim(1);
  require(key_heads > 0 && heads % key_heads == 0, "[attention] q has ", heads, " heads, k ", key_heads,
          "; expected at least 1 head of k, and a multiple of the heads of k in q");
  require(shape.value_size >= 0 && shape.value_size <= q.data.dim(2), "[attention] the value size is ",
          shape.value_size, ", and the key size ", q.data.dim(2), "; expected a value size from 0 to the key size");
  const auto& kernel = kernels::kernels(q.device()).attention;
  Tensor out = Tensor::like(q.data);
  Tensor lse = Tensor::empty({queries, heads}, accumulator_dtype(q.data.dtype()), q.device());
  kernel.forward(tape.stream, out, lse, q.data, k.data, v.data, first, last, shape);
  sinks.add(tape.stream, out, lse);
  return tape.record(
      "attention", out, {q, k, v}, save(q.data, k.data, v.data, out, lse),
      [&kernel, first, last, shape, sinks](Backward& b, const Tensor& dout, const Saved& s) {
        auto [q_, k_, v_, out_, lse_] = s.get<5>();
        Tensor dq = Tensor::like(q_), dk = Tensor::like(k_), dv = Tensor::like(v_);
        sinks.backward(b, dout, out_, lse_);
        kernel.backward(b.stream, {dq, dk, dv}, dout, {out_, lse_, q_, k_, v_, first, last}, shape);
        b.accumulate(0, dq), b.accumulate(1, dk), b.accumulate(2, dv);
      },
      sinks.weights());
}

}  // namespace hexad::autograd
