#include "layers/moe/router/shared_capacity.h"

#include <algorithm>

#include "parallel/comm/rows.h"
#include "parallel/ep/received.h"

namespace hexad::moe {
namespace {

// Rows in the order of the ranks to rows in the order of their tokens.
template <class T>
Tensor by_token(const Tensor& rows, const std::vector<int64_t>& token_of_row) {
  Tensor out = Tensor::like(rows, Category::communication);
  const int64_t width = rows.dim(1);
  for (size_t r = 0; r < token_of_row.size(); ++r)
    std::copy_n(rows.data<T>() + static_cast<int64_t>(r) * width, width, out.data<T>() + token_of_row[r] * width);
  return out;
}

}  // namespace

int64_t drop_over_shared_capacity(const Tensor& ids, const Tensor& scores, const layers::MicroBatch& batch,
                                  const comm::ProcessGroup& tokens, int64_t scope_tokens, double factor,
                                  DropRule rule) {
  if (tokens.size() == 1) return drop_over_capacity(ids, scores, scope_tokens, factor, rule);
  // The ranks of `tokens` hold the rows of one context rank after the other.
  std::vector<int64_t> token_of_row;
  const cp::ContextSplit split = batch.split();
  for (int c = 0; c < split.ranks; ++c) {
    const std::vector<int64_t> of_rank = split.tokens(c);
    token_of_row.insert(token_of_row.end(), of_rank.begin(), of_rank.end());
  }
  device::InlineStream stream;
  const Tensor all_ids = comm::all_gather_rows(ids, tokens, stream);
  ep::check_gathered_ids(all_ids, scores.dim(1), tokens);
  const Tensor whole_ids = by_token<int32_t>(all_ids, token_of_row);
  const Tensor all_scores = comm::all_gather_rows(scores, tokens, stream);
  Tensor whole_scores;
  with_dtype<float, double>("capacity", scores.dtype(),
                            [&]<class T>() { whole_scores = by_token<T>(all_scores, token_of_row); });
  drop_over_capacity(whole_ids, whole_scores, scope_tokens, factor, rule);

  const int64_t mine = ids.dim(0), top_k = ids.dim(1);
  int64_t dropped = 0;
  for (int64_t r = 0; r < mine; ++r)
    for (int64_t k = 0; k < top_k; ++k) {
      int32_t& id = ids.data<int32_t>()[r * top_k + k];
      const int64_t token = token_of_row[static_cast<size_t>(tokens.rank() * mine + r)];
      const int32_t decided = whole_ids.data<int32_t>()[token * top_k + k];
      dropped += id != decided;
      id = decided;
    }
  return dropped;
}

}  // namespace hexad::moe
