// Choice of tokens by experts, for the router expert_choice.
#pragma once

#include "framework/kernels/kernel_table.h"
#include "layers/base/micro_batch.h"
#include "layers/base/moe_config.h"
#include "layers/base/moe_names.h"
#include "parallel/comm/process_group.h"

namespace hexad::moe {

/// Number of tokens that an expert chooses in each scope. A scope has `scope_tokens` consecutive tokens. The number is
/// `factor` times the mean number of slots per expert in the scope, rounded up (kernels::ExpertChoiceKernels).
struct ChoicesOfExperts {
  int64_t scope_tokens;
  double factor;
};

/// Returns the scope and the factor of `config` for the tokens of `batch`. Throws std::logic_error if the capacity
/// factor of `config` is not set.
ChoicesOfExperts choices_of_experts(const MoeConfig& config, const layers::MicroBatch& batch);

/// Returns the number of token-expert pairs that the experts choose in all scopes of `batch`, over all ranks that share
/// `batch`. Includes pairs that a token does not keep because more than top_k experts choose the token.
int64_t number_of_choices(const MoeConfig& config, const layers::MicroBatch& batch);

/// Lets each expert choose tokens in each scope of `batch`. Returns the experts of the rows of `scores`: ids [R, top_k]
/// i32, -1 for an empty slot. Padding has only empty slots. `tokens` are the tp x cp ranks. The rank with tp rank t and
/// cp rank c has index t + tp * c. These ranks hold equal shares of the batch's rows, and all compute the same choice.
/// `scores` [R, E], in the accumulator dtype, has this rank's rows, or the rows of all tp ranks at this rank's cp
/// coordinate. Rows [own_begin, own_end) of `scores` are this rank's share. `stream` is the compute lane. Collective.
Tensor choose_tokens(const Tensor& scores, int64_t own_begin, int64_t own_end, int64_t top_k,
                     const layers::MicroBatch& batch, const comm::ProcessGroup& tokens, const ChoicesOfExperts& choices,
                     Stream& stream);

}  // namespace hexad::moe
