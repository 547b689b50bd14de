#include "framework/device/cuda/thread_card.h"

#include <cuda_runtime_api.h>

#include "framework/device/cuda/cuda_check.h"

namespace hexad::device::cuda {
namespace {

constexpr int none = -1;
thread_local int current = none;  // recorded here, because CUDA cannot report whether a thread has chosen a card

void choose(int ordinal) noexcept {
  if (cudaSetDevice(ordinal) == cudaSuccess) current = ordinal;
}

}  // namespace

void use_card(int ordinal) {
  check(cudaSetDevice(ordinal), "choosing the card");
  current = ordinal;
}

void ensure_card(int ordinal) noexcept {
  if (current == none) choose(ordinal);
}

OnCard::OnCard(int ordinal) noexcept : before_(current) {
  if (current != ordinal) choose(ordinal);
}

OnCard::~OnCard() {
  if (before_ != none && before_ != current) choose(before_);
}

}  // namespace hexad::device::cuda
