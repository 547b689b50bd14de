// Current card of a thread. For a thread without a current card, CUDA opens the first visible card and allocates about
// half a gigabyte of its memory.
#pragma once

namespace hexad::device::cuda {

/// Makes card `ordinal` current in the calling thread, which must be a thread of a rank. Throws Error(resource) if CUDA
/// reports an error.
void use_card(int ordinal);

/// Makes card `ordinal` current in the calling thread if the thread has no current card. A function that may run on any
/// thread must call ensure_card() first, so that CUDA does not open the first visible card. Any current card suffices,
/// because streams, events and memory belong to a fixed card. Ignores errors, because the following calls report them.
void ensure_card(int ordinal) noexcept;

/// Makes card `ordinal` current in the calling thread during the lifetime of this object. An OnCard is needed for calls
/// that create events or allocate memory, because such calls use the current card. The destructor restores the thread's
/// former card, if any. This class is needed if ranks are threads, because the thread of one rank may make such calls
/// for another rank. Ignores errors, like ensure_card().
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
