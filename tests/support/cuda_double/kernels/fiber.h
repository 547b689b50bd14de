// A function with its own stack that can be suspended and resumed.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace hexad::cuda_double {

/// Fiber that runs on the thread that made it. In builds with the address sanitizer, every switch is announced to the
/// sanitizer.
class Fiber {
 public:
  /// Makes a fiber. `body` must not throw, and must have returned before the fiber is destroyed.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends itself or returns.
  void resume();
  /// Switches back to the caller of resume(). The body calls this function.
  void suspend();

 private:
  struct Stack {
    const void* bottom = nullptr;
    size_t size = 0;
  };
  Stack own_, caller_stack_;
  boost::context::fiber fiber_, caller_;
};

}  // namespace hexad::cuda_double
