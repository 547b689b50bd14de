// Two pieces of work on one thread that alternate instead of waiting.
#pragma once

#include <functional>

namespace hexad::schedule {

/// Interleaves two micro-batches of a rank: one computes while data for the other is in flight. Only the program
/// decides which piece continues, never the arrival of data. Therefore ranks whose pieces yield at the same places
/// issue their collectives in the same order. Everything stays on the calling thread.
class Fibers {
 public:
  using Work = std::function<void()>;

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Runs `first` and `second`, which has its own stack. `first` begins. A piece that calls yield() pauses until the
  /// other piece yields or is over. If one piece throws, the other piece is abandoned: its yield() throws an exception
  /// that the piece must not catch. Returns, or throws the error, when both pieces are over. Throws std::logic_error
  /// inside another run().
  void run(const Work& first, const Work& second);
  /// Pauses this piece and resumes the other. Does nothing outside of run(), or if the other piece is over. Must not be
  /// called while an exception is handled: the language keeps the exception's state per thread.
  void yield();

 private:
  struct Pair;
  Pair* pair_ = nullptr;  // on the stack of run()
};

}  // namespace hexad::schedule
