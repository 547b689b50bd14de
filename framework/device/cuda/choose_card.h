// Choice of a rank's card.
#pragma once

#include <memory>
#include <string>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Opens the card of the calling rank and makes it current. The rank's index on its node chooses the card:
/// HEXAD_LOCAL_RANK if it is set, otherwise `place`. Throws Error(resource) if there is no driver, no card, or only a
/// card of a generation for which this program was not built.
std::shared_ptr<Card> choose_card(int place);

/// Throws Error(resource) with the message "device: cuda was requested, but `reason`; use device: cpu".
[[noreturn]] void refuse_card(const std::string& reason);

}  // namespace hexad::device::cuda
