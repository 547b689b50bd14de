#include "layers/moe/router/expert_choice.h"

#include "parallel/comm/gathered_rows.h"

namespace hexad::moe {

using base::Dtype;
using device::Category;
using device::Device;

namespace {

// Returns the index of each token's row if the rows of all cp ranks are concatenated, or -1 for padding: [T] i64.
// Returns an undefined tensor if the rows are in the order of the tokens and no token is padding.
Tensor rows_of_choice(const layers::MicroBatch& batch, Device device) {
  const cp::ContextSplit split = batch.split();
  if (split.ranks == 1 && !batch.valid.defined()) return {};
  std::vector<int64_t> rows(batch.tokens());
  int64_t row = 0;
  for (int c = 0; c < split.ranks; ++c)
    for (const int64_t token : split.tokens(c)) {
      const bool valid = token % batch.length < batch.valid_in(token / batch.length);
      rows[token] = valid ? row : -1;
      ++row;
    }
  return Tensor::from<int64_t>(rows, {row}, device, Category::communication);
}

}  // namespace

Tensor choose_tokens(const Tensor& scores, int64_t own_begin, int64_t own_end, int64_t top_k,
                     const layers::MicroBatch& batch, const comm::ProcessGroup& tokens, const ChoicesOfExperts& choices,
                     Stream& stream) {
  const auto& choose = kernels::kernels(scores.device()).expert_choice.choose;
  const Tensor rows = rows_of_choice(batch, scores.device());
  const Tensor ids = Tensor::empty({scores.dim(0), top_k}, Dtype::i32, scores.device());
  if (tokens.size() == 1) {
    choose(stream, ids, scores, rows, choices.scope_tokens, choices.factor);
    return ids;
  }
  const int64_t mine = own_end - own_begin, first = tokens.rank() * mine - own_begin;
  const Tensor all_scores = comm::all_gather_rows(scores.slice(0, own_begin, own_end), tokens, stream);
  const Tensor all_ids =
      Tensor::empty({all_scores.dim(0), top_k}, Dtype::i32, scores.device(), Category::communication);
  choose(stream, all_ids, all_scores, rows, choices.scope_tokens, choices.factor);
  ids.copy_from(all_ids.slice(0, first, first + scores.dim(0)), stream);
  return ids;
}

}  // namespace hexad::moe
