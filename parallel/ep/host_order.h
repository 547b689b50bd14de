// Slot orders that the host computes, for order_slots().
#pragma once

#include "parallel/ep/slot_order.h"

namespace hexad::ep {

// --- rows that belong to tokens (token_order.cpp)

/// Returns the slot order of one rank for RowOf::token. The ids must be on the host and valid. The tensors of the
/// result are on the host. Throws std::logic_error if a token names an expert twice.
SlotOrder order_tokens(const Tensor& ids, const Ordering& ordering, int rank);

// --- rows with padding, as DeepSpeed-MoE sends them (padded_order.cpp)

/// Returns the slot order of one rank, with padding. Each expert gets at least as many rows as the rank's share of the
/// expert's capacity: Ordering::capacity times the mean number of the rank's slots per expert, rounded up. Rows without
/// a slot are padding. They are copies of token 0. No token uses their results, and their gradients are zero. The ids
/// must be on the host and valid. The tensors of the result are on the host. Throws std::logic_error if rows belong to
/// tokens or are in several chunks.
SlotOrder order_padded(const Tensor& ids, const Ordering& ordering);

}  // namespace hexad::ep
