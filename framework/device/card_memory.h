// The memory of a card, before anything is taken from it.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::device {

struct CardMemory {
  std::string id;         // the card's own, whatever this process calls it
  std::string name;       // "NVIDIA H100 80GB HBM3"
  int64_t available = 0;  // bytes that no process has taken yet
};

/// The memory of the GPU that a rank gets, `place` being the rank's among those of its node. Throws Error naming the
/// reason where a context on a GPU cannot be made.
CardMemory cuda_card_memory(int place);

}  // namespace hexad::device
