#include "parallel/tp/regions.h"
#include "parallel/tp/vocabulary.h"

namespace hexad::tp {
namespace {

// Where the ids that are held here stand.
struct Here {
  Tensor rows;    // [T, 1] i64: the row of this rank's table, or -1
  Tensor tokens;  // [n] i64: positions of the ids that are
  Tensor ids;     // [n] i32: their rows of this rank's table
};

Here find(const Tensor& ids, int64_t vocabulary, const VocabularyPart& part) {
  std::vector<int64_t> rows, tokens;
  std::vector<int32_t> local;
  for (const int32_t id : ids.to_vector<int32_t>()) {
    require(0 <= id && id < vocabulary, "[vocab_embedding] ids[", rows.size(), "] is ", id, "; expected 0 .. ",
            vocabulary - 1);
    if (part.holds(id)) {
      tokens.push_back(static_cast<int64_t>(rows.size()));
      local.push_back(static_cast<int32_t>(id - part.begin));
    }
    rows.push_back(part.holds(id) ? id - part.begin : -1);
  }
  const auto size = [](const auto& v) { return static_cast<int64_t>(v.size()); };
  return {Tensor::from<int64_t>(rows, {size(rows), 1}, ids.device()),
          Tensor::from<int64_t>(tokens, {size(tokens)}, ids.device()),
          Tensor::from<int32_t>(local, {size(local)}, ids.device())};
}

// This rank's addend: rows of ids that are held elsewhere are zero.
Value rows_held_here(Tape& tape, Parameter& table, const Tensor& ids, const VocabularyPart& part) {
  const KernelTable& k = kernels::kernels(ids.device());
  const Here here = find(ids, table.global_shape()[0], part);
  const Tensor local = table.use(tape.stream).data;
  Tensor out = Tensor::empty({ids.dim(0), local.dim(1)}, local.dtype(), ids.device());
  k.permute.combine(tape.stream, out, local, here.rows, {}, {});
  return tape.record("vocab_embedding", out, {}, {}, {},
                     {{&table}, [&k, &table, here](Backward& b, const Tensor& dout, const Saved&) {
                        const Tensor rows = Tensor::empty({here.ids.dim(0), dout.dim(1)}, dout.dtype(), dout.device());
                        k.permute.gather(b.stream, rows, dout, here.tokens, {});
                        k.embedding.backward(b.stream, table.gradient_to_add(b.stream), rows, here.ids);
                      }});
}

}  // namespace

Value vocab_embedding(Tape& tape, Parameter& table, const Tensor& ids, const TensorParallel& tp) {
  if (tp.group->size() == 1) return embedding(tape, table, ids);
  const Value addend = rows_held_here(tape, table, ids, vocabulary_part("vocab_embedding", table, *tp.group));
  return tp.sequence ? scatter_rows(tape, addend, *tp.group) : leave(tape, addend, *tp.group);
}

}  // namespace hexad::tp
