// A function with a stack of its own, that stops and goes on.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace hexad::cuda_double {

/// Runs on the thread that made it. The address sanitizer is told of every switch.
class Fiber {
 public:
  /// `body` throws nothing. It must have returned before the fiber is destroyed.
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body until it suspends itself or returns.
  void resume();
  /// Called by the body: switches back to the caller of resume().
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
