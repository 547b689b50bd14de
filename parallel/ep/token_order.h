// Order of rows that belong to tokens, computed on the host.
#pragma once

#include "parallel/ep/slot_order.h"

namespace hexad::ep {

/// Returns the slot order of one rank for RowOf::token. The ids must be on the host and valid. The tensors of the
/// result are on the host. Throws std::logic_error if a token names an expert twice.
SlotOrder order_tokens(const Tensor& ids, const Ordering& ordering, int rank);

}  // namespace hexad::ep
