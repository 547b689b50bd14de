// Current card of a thread. If a thread has chosen no card, CUDA opens the machine's first card for it and allocates
// half a gigabyte of that card's memory.
#pragma once

namespace hexad::device::cuda {

/// Makes card `ordinal` current in the calling thread, a thread of a rank. Throws Error(resource) if CUDA refuses.
void use_card(int ordinal);

/// Makes card `ordinal` current in the calling thread if the thread has no current card. Call it first in every
/// function that any thread may call. Which card is current does not matter there, because streams, events and memory
/// belong to a fixed card. Ignores errors, because the following calls report them.
void ensure_card(int ordinal) noexcept;

/// Makes card `ordinal` current in the calling thread during its lifetime, for calls that depend on the current card:
/// those that create events or allocate memory. The destructor restores the thread's former card, if any. If ranks are
/// threads, the thread of one rank may make such calls for another rank. Ignores errors, like ensure_card().
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
