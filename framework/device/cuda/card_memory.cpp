#include "framework/device/card_memory.h"

#include <cuda_runtime_api.h>

#include "framework/device/cuda/choose_card.h"
#include "framework/device/cuda/cuda_check.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::device {

CardMemory cuda_card_memory(int place) {
  const auto card = cuda::choose_card(place);
  size_t available = 0, total = 0;
  cuda::use_card(card->ordinal());
  cuda::check(cudaMemGetInfo(&available, &total), "querying the card's memory");
  const auto& uuid = card->properties().uuid.bytes;
  return {.id = std::string(std::begin(uuid), std::end(uuid)),
          .name = card->properties().name,
          .available = static_cast<int64_t>(available)};
}

}  // namespace hexad::device
