// Two pieces of work on one thread, which alternate instead of waiting.
#pragma once

#include <functional>

namespace hexad::schedule {

/// Alternates between two micro-batches of a rank: one computes while data of the other are in flight. Only the program
/// determines which piece of work continues, never the arrival of data. Therefore ranks whose pieces yield at the same
/// points issue their collectives in the same order. All work stays on the calling thread.
class Fibers {
 public:
  using Work = std::function<void()>;

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Runs `first` and `second`, which has its own stack, and begins with `first`. A piece of work that calls yield()
  /// pauses until the other piece yields or ends. Returns when both have ended. If one throws, the other is abandoned:
  /// its yield() throws an exception, which it must not catch; run() then rethrows the error. Throws std::logic_error
  /// if called inside another run().
  void run(const Work& first, const Work& second);
  /// Pauses this piece of work and resumes the other. Does nothing outside of run() or if the other piece has ended.
  /// Must not be called while an exception is being handled, because C++ stores the state of exceptions per thread.
  void yield();

 private:
  struct Pair;
  Pair* pair_ = nullptr;  // on the stack of run()
};

}  // namespace hexad::schedule
