// Two pieces of work on one thread, which alternate instead of waiting.
#pragma once

#include <functional>

namespace hexad::schedule {

/// Alternates between two micro-batches of a rank: one micro-batch computes while data of the other are in flight. The
/// arrival of data never determines which piece of work continues. Therefore ranks whose pieces yield at the same
/// points issue their collectives in the same order. All work runs on the calling thread.
class Fibers {
 public:
  using Work = std::function<void()>;

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Runs `first` and `second`, beginning with `first`. `second` has a separate stack. A piece of work that calls
  /// yield() pauses until the other piece yields or ends. Returns when both pieces have ended.
  ///
  /// run() abandons the other piece if one piece throws, and rethrows the first error. An abandoned piece that has
  /// not begun does not begin. In an abandoned piece that is paused, yield() throws an exception, which this piece must
  /// not catch. Throws std::logic_error if called inside another run() of this object.
  void run(const Work& first, const Work& second);
  /// Pauses this piece of work and resumes the other. Does nothing outside of run() or if the other piece has ended.
  /// Must not be called while an exception is being handled, because C++ stores the state of exceptions per thread.
  void yield();

 private:
  struct Pair;
  Pair* pair_ = nullptr;  // on the stack of run()
};

}  // namespace hexad::schedule
