// Queries of the free memory of a card.
#pragma once

#include <cstdint>
#include <string>

namespace hexad::device {

struct CardMemory {
  std::string id;         // identifier that does not depend on this process's numbering
  std::string name;       // name, such as "NVIDIA H100 80GB HBM3"
  int64_t available = 0;  // bytes that no process has allocated
};

/// Returns the memory of the card that belongs to the rank at index `place` of its node. Throws Error(usage) if the
/// program was built without CUDA or HEXAD_LOCAL_RANK is invalid, and Error(resource) if there is no usable card. Makes
/// the card current in the calling thread.
CardMemory cuda_card_memory(int place);
/// Returns the bytes of card `ordinal`, in this process's numbering, that no process has allocated. Makes the card
/// current in the calling thread. Throws Error(usage) if the program was built without CUDA, and Error(resource) if
/// CUDA reports an error.
int64_t cuda_available_memory(int ordinal);

}  // namespace hexad::device
