#include "tests/support/cuda_double/kernels/fiber.h"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/context/stack_context.hpp>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace hexad::cuda_double {
namespace {

using boost::context::stack_context;

// This size suffices for the kernels' local arrays of tiles, with the padding of the address sanitizer.
constexpr size_t stack_bytes = size_t{256} << 10;

/// Stacks that no fiber of this thread uses.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool() {
    for (stack_context& stack : free_) allocator_.deallocate(stack);
  }
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  stack_context take() {
    if (free_.empty()) return allocator_.allocate();
    const stack_context stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void give_back(const stack_context& stack) { free_.push_back(stack); }

 private:
  boost::context::protected_fixedsize_stack allocator_{stack_bytes};
  std::vector<stack_context> free_;
};

StackPool& pool() {
  thread_local StackPool of_this_thread;
  return of_this_thread;
}

/// Stack from the pool, in the form that Boost requires.
struct PooledStack {
  const void** bottom;
  size_t* size;
  stack_context allocate() const {
    const stack_context stack = pool().take();
    *bottom = static_cast<const std::byte*>(stack.sp) - stack.size;
    *size = stack.size;
    return stack;
  }
  void deallocate(stack_context& stack) const { pool().give_back(stack); }
};

#ifdef __SANITIZE_ADDRESS__
void begin_switch(void** fake, const void* bottom, size_t size) { __sanitizer_start_switch_fiber(fake, bottom, size); }
void end_switch(void* fake, const void** bottom, size_t* size) { __sanitizer_finish_switch_fiber(fake, bottom, size); }
#else
void begin_switch(void**, const void*, size_t) {}
void end_switch(void*, const void**, size_t*) {}
#endif

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : fiber_(std::allocator_arg, PooledStack{&own_.bottom, &own_.size},
             [this, body = std::move(body)](boost::context::fiber&& caller) {
               end_switch(nullptr, &caller_stack_.bottom, &caller_stack_.size);
               caller_ = std::move(caller);
               body();
               begin_switch(nullptr, caller_stack_.bottom, caller_stack_.size);  // null: this stack is not used again
               return std::move(caller_);
             }) {}

void Fiber::resume() {
  void* fake = nullptr;
  begin_switch(&fake, own_.bottom, own_.size);
  fiber_ = std::move(fiber_).resume();
  end_switch(fake, nullptr, nullptr);
}

void Fiber::suspend() {
  void* fake = nullptr;
  begin_switch(&fake, caller_stack_.bottom, caller_stack_.size);
  caller_ = std::move(caller_).resume();
  end_switch(fake, &caller_stack_.bottom, &caller_stack_.size);
}

}  // namespace hexad::cuda_double
