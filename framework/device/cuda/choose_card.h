// Chooses the card of a rank.
#pragma once

#include <memory>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::device::cuda {

/// Opens the card of the `place`-th rank of its node: ranks get the node's cards in turn, or the one that
/// HEXAD_LOCAL_RANK numbers. Throws Error(resource) where there is no driver, no card, or one of another generation
/// than this program was built for.
std::shared_ptr<Card> choose_card(int place);

}  // namespace hexad::device::cuda
