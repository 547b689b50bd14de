// Rows of tokens, ordered by the host.
#pragma once

#include "parallel/ep/slot_order.h"

namespace hexad::ep {

/// Like order_slots() for RowOf::token and one rank, with ids that the host has and that all name experts; tensors are
/// on the host. Throws std::logic_error for an expert that a token names twice.
SlotOrder order_tokens(const Tensor& ids, const Ordering& ordering, int rank);

}  // namespace hexad::ep
