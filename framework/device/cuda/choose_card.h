// Choice of the card of a rank.
#pragma once

#include <memory>
#include <string>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Opens a card of the node. Ranks get the cards in turn: by HEXAD_LOCAL_RANK if it is set, otherwise by `place`, the
/// rank's index on its node. Throws Error(resource) if there is no driver, no card, or a card of another generation
/// than this program was built for.
std::shared_ptr<Card> choose_card(int place);

/// Throws Error(resource): "device: cuda was requested, but `reason`; use device: cpu".
[[noreturn]] void refuse_card(const std::string& reason);

}  // namespace hexad::device::cuda
