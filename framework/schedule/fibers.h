// Two pieces of work of one thread that take turns where they would wait.
#pragma once

#include <functional>

namespace hexad::schedule {

/// Interleaves two micro-batches of a rank: one computes while the data that the other waits for is in flight. The
/// program alone decides which one continues, never the arrival of data, so ranks whose pieces yield at the same places
/// issue their collectives in the same order. Everything stays on the calling thread.
class Fibers {
 public:
  using Work = std::function<void()>;

  Fibers() = default;
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  /// Runs `first` and `second`, which has a stack of its own. `first` begins; the one that calls yield() pauses until
  /// the other yields or is over. If one throws, the other is given up: an exception that it must let pass leaves its
  /// yield(). Returns, or throws the error, when both are over. Throws std::logic_error inside another run().
  void run(const Work& first, const Work& second);
  /// Outside of run(), and when the other one is over, does nothing. Not to be called while an exception is handled:
  /// what the language keeps of it belongs to the thread.
  void yield();

 private:
  struct Pair;
  Pair* pair_ = nullptr;  // on the stack of run()
};

}  // namespace hexad::schedule
