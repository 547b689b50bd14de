// Choice of a rank's card.
#pragma once

#include <memory>
#include <string>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Returns the card of a rank, without making it current. The visible cards are assigned in turn to the ranks of a
/// node. The rank's index on its node is HEXAD_LOCAL_RANK if it is set, otherwise `place`. Throws Error(usage) if
/// HEXAD_LOCAL_RANK is not an integer of at least 0. Throws Error(resource) if the driver is missing, too old or
/// failing, or if no card is visible. Also throws Error(resource) if this program was not built for the rank's card.
std::shared_ptr<Card> choose_card(int place);

/// Throws Error(resource) with the message "device: cuda was requested, but `reason`; use device: cpu".
[[noreturn]] void refuse_card(const std::string& reason);

}  // namespace hexad::device::cuda
