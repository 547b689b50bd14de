#include "parallel/tp/regions.h"
#include "parallel/tp/split_vocabulary.h"

namespace hexad::tp {

using namespace autograd;
using namespace base;
using namespace kernels;

namespace {

// Checks ids that are in host memory. Does not read ids on a device, because this would block the host. framework/data
// has already checked the ids of a batch.
void check_ids(const Tensor& ids, int64_t vocabulary) {
  if (!ids.device().on_host()) return;
  const int32_t* id = ids.data<int32_t>();
  for (int64_t t = 0; t < ids.numel(); ++t)
    require(0 <= id[t] && id[t] < vocabulary, "[vocab_embedding] ids[", t, "] is ", id[t], "; expected 0 .. ",
            vocabulary - 1);
}

// Returns, for each id, the index of its row in this rank's part of the table; -1 if the row is on another rank.
Tensor rows_of(const Tensor& ids, const Shape& shape, Dtype dtype, const VocabularyPart& part, Stream& stream) {
  const Tensor rows = Tensor::empty(shape, dtype, ids.device());
  kernels::kernels(ids.device()).index.within(stream, rows, ids, part.begin, part.end - part.begin);
  return rows;
}

// Returns this rank's addend of the embedding, in which the rows for ids of other ranks are zero.
Value rows_held_here(Tape& tape, Parameter& table, const Tensor& ids, const VocabularyPart& part) {
  const KernelTable& k = kernels::kernels(ids.device());
  check_ids(ids, table.global_shape()[0]);
  const int64_t tokens = ids.dim(0);
  const Tensor local = table.use(tape.stream);
  Tensor out = Tensor::empty({tokens, local.dim(1)}, local.dtype(), ids.device());
  // Each output row is one table row, or zero if the table row is on another rank.
  k.permute.combine(tape.stream, out, local, rows_of(ids, {tokens, 1}, Dtype::i64, part, tape.stream), {}, {});
  return tape.record("vocab_embedding", out, {}, {}, {},
                     {{&table}, [&k, &table, ids, part](Backward& b, const Tensor& dout, const Saved&) {
                        k.embedding.backward(b.stream, table.gradient_to_add(b.stream), dout,
                                             rows_of(ids, ids.shape(), Dtype::i32, part, b.stream));
                      }});
}

}  // namespace

Value vocab_embedding(Tape& tape, Parameter& table, const Tensor& ids, const TensorParallel& tp) {
  if (tp.group->size() == 1) return embedding(tape, table, ids);
  const Value addend = rows_held_here(tape, table, ids, vocabulary_part("vocab_embedding", table, *tp.group));
  return tp.sequence ? scatter_rows(tape, addend, *tp.group) : leave(tape, addend, *tp.group);
}

}  // namespace hexad::tp
