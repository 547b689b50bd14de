#include "layers/moe/router/capacity.h"

#include "parallel/comm/gathered_rows.h"
#include "parallel/ep/received.h"

namespace hexad::moe {

namespace {

// Returns the index of each token's row among the concatenated rows of all cp ranks: [T] i64. Returns an undefined
// tensor if there is one cp rank, because its rows are in the order of the tokens.
Tensor token_order(const layers::MicroBatch& batch, Device device) {
  const cp::ContextSplit split = batch.split();
  if (split.ranks == 1) return {};
  std::vector<int64_t> rows(batch.tokens());
  int64_t row = 0;
  for (int c = 0; c < split.ranks; ++c)
    for (const int64_t token : split.tokens(c)) rows[token] = row++;
  return Tensor::from<int64_t>(rows, {row}, device, Category::communication);
}

}  // namespace

void drop_over_capacity(const Tensor& ids, int64_t own, const Tensor& scores, const layers::MicroBatch& batch,
                        const comm::ProcessGroup& tokens, const kernels::Capacity& capacity, Stream& stream) {
  const auto& drop = kernels_of(ids).capacity.drop;
  const int64_t mine = scores.dim(0), rows = ids.dim(0);
  if (tokens.size() == 1) return drop(stream, ids, scores, {}, capacity);
  const Tensor all_ids = comm::all_gather_rows(ids.slice(0, own, own + mine), tokens, stream);
  if (all_ids.device().on_host()) ep::check_gathered_ids(all_ids, scores.dim(1), tokens);
  const Tensor all_scores = comm::all_gather_rows(scores, tokens, stream);
  drop(stream, all_ids, all_scores, token_order(batch, ids.device()), capacity);
  const int64_t first = tokens.rank() * mine - own;
  ids.copy_from(all_ids.slice(0, first, first + rows), stream);
}

}  // namespace hexad::moe
