// Block and message sizes for toy models. They split a toy's work into several blocks, messages and rounds of each
// kind, as the default sizes do for a large model.
#pragma once

#include "framework/base/block_sizes.h"
#include "parallel/comm/issue_queue.h"

namespace hexad::verify {

/// Block sizes. They are odd if possible, which makes the last blocks smaller.
inline constexpr base::BlockSizes toy_blocks{.expert_rows = 3,
                                             .optimizer_elements = 101,
                                             .sum_bytes = 1 << 10,
                                             .whole_bytes = 1 << 10,
                                             .message_bytes = 4 << 10,
                                             .total_elements = 101,
                                             .cached_elements = 101,
                                             .logit_rows = 5,
                                             .rounded_elements = 101,
                                             .drawn_elements = 101};

/// Limits with small rounds, many of which fit into a window.
inline constexpr comm::Limits toy_limits{.round_bytes = 16 << 10};

}  // namespace hexad::verify
