// Memory of a card before a context allocates from it.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::device {

struct CardMemory {
  std::string id;         // unique id of the card, independent of this process's numbering
  std::string name;       // "NVIDIA H100 80GB HBM3"
  int64_t available = 0;  // bytes that no process has allocated
};

/// Returns the memory of the GPU of the rank at index `place` of its node. Throws Error with the reason if a context on
/// a GPU cannot be made.
CardMemory cuda_card_memory(int place);
/// Returns the bytes of GPU `ordinal` of this process that no process has allocated.
int64_t cuda_available_memory(int ordinal);

}  // namespace hexad::device
