#include "framework/device/card_memory.h"

#include <cuda_runtime_api.h>

#include "framework/device/cuda/choose_card.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device {

CardMemory cuda_card_memory(int place) {
  const auto card = cuda::choose_card(place);
  const auto& uuid = card->properties().uuid.bytes;
  return {.id = std::string(std::begin(uuid), std::end(uuid)),
          .name = card->properties().name,
          .available = cuda_available_memory(card->ordinal())};
}

int64_t cuda_available_memory(int ordinal) {
  size_t available = 0, total = 0;
  cuda::use_card(ordinal);
  cuda::check(cudaMemGetInfo(&available, &total), "querying the card's memory");
  return static_cast<int64_t>(available);
}

}  // namespace hexad::device
