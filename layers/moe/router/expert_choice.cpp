#include "layers/moe/router/expert_choice.h"

#include "parallel/comm/gathered_rows.h"

namespace hexad::moe {

namespace {

// Returns the index of each token's row among the concatenated rows of all cp ranks, or -1 for padding: [T] i64.
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

ChoicesOfExperts choices_of_experts(const MoeConfig& config, const layers::MicroBatch& batch) {
  base::require(config.capacity_factor.has_value(), "[router ", config.router,
                "] model.moe.capacity_factor is none, expected a number");
  const bool by_sequence = config.capacity_scope == CapacityScope::sequence;
  return {by_sequence ? batch.length : batch.tokens(), *config.capacity_factor};
}

int64_t number_of_choices(const MoeConfig& config, const layers::MicroBatch& batch) {
  const ChoicesOfExperts choices = choices_of_experts(config, batch);
  int64_t sum = 0, valid = 0;  // valid: tokens so far of the current scope, without padding
  for (int64_t s = 0; s < batch.sequences; ++s) {
    valid += batch.valid_in(s);
    const bool ends_scope = s + 1 == batch.sequences || (s + 1) * batch.length % choices.scope_tokens == 0;
    if (!ends_scope) continue;
    sum += config.experts * kernels::tokens_of_expert(valid, config.top_k, config.experts, choices.factor);
    valid = 0;
  }
  return sum;
}

Tensor choose_tokens(const Tensor& scores, int64_t own_begin, int64_t own_end, int64_t top_k,
                     const layers::MicroBatch& batch, const comm::ProcessGroup& tokens, const ChoicesOfExperts& choices,
                     Stream& stream) {
  const auto& choose = kernels_of(scores).expert_choice.choose;
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
