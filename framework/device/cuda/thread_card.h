// Card of a thread. If a thread has not chosen a card, CUDA opens the first card of the machine for it and takes half a
// gigabyte of that card's memory.
#pragma once

namespace hexad::device::cuda {

/// Makes `ordinal` the card of the calling thread, for the threads of a rank. Throws Error(resource) if CUDA refuses.
void use_card(int ordinal);

/// Makes `ordinal` the card of the calling thread unless the thread has one. Call it first in every function that any
/// thread may call. Any card will do, because streams, events and memory know their own card. Ignores errors: the calls
/// that follow report them.
void ensure_card(int ordinal) noexcept;

/// Makes `ordinal` the card of the calling thread during its lifetime, for calls that use the thread's card: they make
/// events or allocate memory. The destructor restores the thread's own card, if any. If ranks are threads, the thread
/// of one rank may make such calls for another rank. Ignores errors like ensure_card().
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
