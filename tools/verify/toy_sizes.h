// Block and message sizes for toy models. With these sizes, even a toy has several blocks, messages and rounds, like a
// large model with the default sizes.
#pragma once

#include "framework/base/block_sizes.h"
#include "parallel/comm/issue_queue.h"

namespace hexad::verify {

/// Block sizes. Most are odd, so the last of several blocks is usually smaller than the others.
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

/// Traffic limits with small rounds. A window has space for many rounds.
inline constexpr comm::Limits toy_limits{.round_bytes = 16 << 10};

}  // namespace hexad::verify
