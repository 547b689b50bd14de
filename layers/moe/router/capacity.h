// Which slots an expert over capacity drops.
#pragma once

#include "framework/tensor/tensor.h"
#include "layers/moe/moe_config.h"

namespace hexad::moe {

using namespace tensor;

/// Sets ids (i32 [T, K]) of dropped slots to -1 and returns their number. Tokens are decided in scopes of
/// `scope_tokens` consecutive tokens: in each, an expert keeps at most min(ceil(factor K n / E), n) slots, n being the
/// scope's valid tokens. Kept are those with the highest score (scores [T, E], f32 or f64; never raw logits), the
/// earlier token on a tie, or simply the earliest. Slots that are -1 already (padding) count for nothing.
int64_t drop_over_capacity(const Tensor& ids, const Tensor& scores, int64_t scope_tokens, double factor, DropRule rule);

}  // namespace hexad::moe
