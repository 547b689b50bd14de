// Card of a thread. For a thread that has chosen none, CUDA opens the first card of the machine and takes half a
// gigabyte of its memory.
#pragma once

namespace hexad::device::cuda {

/// Makes `ordinal` the card of the calling thread, for the threads of a rank. Throws Error(resource) if CUDA refuses.
void use_card(int ordinal);

/// Makes `ordinal` the card of the calling thread unless the thread has one. Call it first in everything that any
/// thread may call: streams, events and memory know their card, so the thread only needs some card. Ignores errors: the
/// calls that follow report them.
void ensure_card(int ordinal) noexcept;

/// Makes `ordinal` the card of the calling thread, for calls that use the thread's card: they make events, or allocate
/// memory. Afterwards the thread has its own card again, if it had one: where ranks are threads, one may serve another.
/// Ignores errors like ensure_card().
class OnCard {
 public:
  explicit OnCard(int ordinal) noexcept;
  ~OnCard();
  OnCard(const OnCard&) = delete;
  OnCard& operator=(const OnCard&) = delete;

 private:
  int before_;
};

}  // namespace hexad::device::cuda
