#include "framework/schedule/fibers.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <exception>
#include <utility>

#include "framework/base/error.h"

namespace hexad::schedule {
namespace {

using boost::context::fiber;

// Size of a fiber's stack in bytes. Pages that are never accessed take no memory.
constexpr size_t stack_bytes = size_t{8} << 20;

// Exception that unwinds the stack of an abandoned piece of work. It is not derived from std::exception, so that
// handlers of std::exception do not catch it.
struct GivenUp {};

// Runs `work` and returns the exception that it throws; null if there is none.
std::exception_ptr error_of(const Fibers::Work& work) {
  try {
    work();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

struct Fibers::Pair {
  fiber paused{};  // the paused piece of work, or run() once `first` has ended; empty once `second` has ended
  std::exception_ptr error{};  // error of the second piece of work
  bool given_up = false;       // true if the second piece of work is abandoned because the first has failed

  void change_over() { paused = std::move(paused).resume(); }
};

void Fibers::run(const Work& first, const Work& second) {
  base::require(!pair_, "[fibers] run() was called by work that run() executes; expected no nested calls");
  Pair pair;
  pair_ = &pair;
  pair.paused = fiber(std::allocator_arg, boost::context::protected_fixedsize_stack(stack_bytes), [&](fiber&& caller) {
    pair.paused = std::move(caller);
    if (!pair.given_up) pair.error = error_of(second);
    return std::move(pair.paused);
  });
  std::exception_ptr error = error_of(first);
  pair.given_up = error != nullptr;
  while (pair.paused) pair.change_over();
  pair_ = nullptr;
  if (!error) error = pair.error;
  if (error) std::rethrow_exception(error);
}

void Fibers::yield() {
  if (!pair_ || !pair_->paused) return;
  pair_->change_over();
  if (pair_->given_up) throw GivenUp{};
  if (pair_->error) std::rethrow_exception(pair_->error);
}

}  // namespace hexad::schedule
