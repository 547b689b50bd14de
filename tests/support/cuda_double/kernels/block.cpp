#include "tests/support/cuda_double/kernels/block.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>

#include "tests/support/cuda_double/kernels/coordinates.h"
#include "tests/support/cuda_double/kernels/fiber.h"

namespace hexad::cuda_double {
namespace {

/// Exception that unwinds the stack of a thread of a failed kernel. It is no std::exception, so handlers of errors do
/// not catch it.
struct GivenUp {};

using Random = std::minstd_rand;

/// Permutation of the numbers 0 .. count - 1: i -> (factor i + first) mod count.
struct Order {
  uint64_t count, factor = 1, first = 0;

  Order(uint64_t n, Random* random) : count(n) {
    if (!random || n < 2) return;
    do factor = (*random)() % n;
    while (std::gcd(factor, n) != 1);
    first = (*random)() % n;
  }
  uint64_t operator[](uint64_t i) const { return (i % count * factor + first) % count; }
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool wanted;
};

struct KernelThread {
  Fiber* fiber = nullptr;       // null: not started, or finished
  const Call* waits = nullptr;  // points into the fiber's stack
  std::vector<Copy> copies;
};

/// Lanes of one mask, which meet repeatedly. There are two sets of values: a lane may still read the set of one
/// rendezvous while other lanes write the set of the next rendezvous.
struct WarpRendezvous {
  unsigned mask = 0, here = 0;
  const char* name = nullptr;
  int turn = 0;
  LaneValue values[2][lanes_of_warp];
};

/// Runs one block after the other.
class Runner {
 public:
  Runner(const Grid& grid, const std::function<void()>& thread);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  void run();

  bool meet_block(const Call& call, bool predicate);
  const LaneValue* meet_warp(const Call& call, unsigned mask, const void* mine, size_t bytes);
  void* shared() { return shared_.get(); }
  KernelThread& current() { return threads_[current_]; }
  [[noreturn]] void fail(const std::string& why);

 private:
  void run_block(uint64_t block);
  void run_threads(Fiber* fiber);
  void finish(KernelThread& thread);
  void wait(const Call& call);
  void go_to(unsigned thread);
  void make_ready(unsigned thread) { ready_.push_back(thread); }
  unsigned take_ready();
  bool other_first() { return random_ && !ready_.empty() && (*random_)() % 2 == 0; }
  WarpRendezvous& rendezvous(unsigned warp, unsigned mask);
  [[noreturn]] void stalled();
  std::string place(unsigned thread) const;
  void give_up();

  const Grid& grid_;
  const std::function<void()>& thread_;
  const unsigned count_;
  std::optional<Random> random_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> shared_;

  std::vector<KernelThread> threads_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  std::optional<Order> order_;
  unsigned started_ = 0, finished_ = 0, current_ = 0;
  std::vector<unsigned> ready_;  // threads that can continue

  std::vector<unsigned> at_barrier_;
  const char* barrier_name_ = nullptr;
  bool any_ = false, any_of_last_ = false;
  std::vector<std::vector<std::unique_ptr<WarpRendezvous>>> rendezvous_;  // rendezvous of each warp

  bool ending_ = false;
  std::exception_ptr error_;
};

thread_local Runner* runner = nullptr;

// Allocates shared memory of exactly `bytes` bytes, so that the address sanitizer finds a read beyond its end.
std::unique_ptr<std::byte[], void (*)(std::byte*)> shared_memory(size_t bytes) {
  constexpr std::align_val_t alignment{1024};
  auto* memory = bytes ? static_cast<std::byte*>(::operator new(bytes, alignment)) : nullptr;
  return {memory, [](std::byte* p) { ::operator delete(p, alignment); }};
}

unsigned product(const dim3& d) { return d.x * d.y * d.z; }
uint3 coordinates(uint64_t i, const dim3& size) {
  return {static_cast<unsigned>(i % size.x), static_cast<unsigned>(i / size.x % size.y),
          static_cast<unsigned>(i / size.x / size.y)};
}
std::string text(const uint3& at) {
  std::ostringstream out;
  out << '(' << at.x << ", " << at.y << ", " << at.z << ')';
  return out.str();
}

Runner::Runner(const Grid& grid, const std::function<void()>& thread)
    : grid_(grid),
      thread_(thread),
      count_(product(grid.threads)),
      shared_(shared_memory(grid.shared)),
      threads_(count_),
      rendezvous_((count_ + lanes_of_warp - 1) / lanes_of_warp) {
  if (grid.order) random_.emplace(static_cast<uint32_t>(*grid.order * 0x9e3779b97f4a7c15u >> 32));
  runner = this;
}

Runner::~Runner() {
  ending_ = true;
  for (Fiber* fiber : idle_) fiber->resume();
  runner = nullptr;
}

void Runner::run() {
  gridDim = grid_.blocks;
  blockDim = grid_.threads;
  const uint64_t blocks = uint64_t{grid_.blocks.x} * grid_.blocks.y * grid_.blocks.z;
  const Order order(blocks, random_ ? &*random_ : nullptr);
  for (uint64_t b = 0; b < blocks; ++b) run_block(order[b]);
}

void Runner::run_block(uint64_t block) {
  blockIdx = coordinates(block, grid_.blocks);
  // Fills shared memory with bytes that are NaN as numbers, and out of range as indices.
  if (grid_.shared) std::memset(shared_.get(), 0xff, grid_.shared);
  order_.emplace(count_, random_ ? &*random_ : nullptr);
  started_ = finished_ = 0;
  while (finished_ < count_) {
    if (!ready_.empty() && (started_ == count_ || other_first())) {
      const unsigned thread = take_ready();
      go_to(thread);
      threads_[thread].fiber->resume();
    } else if (started_ < count_) {
      if (idle_.empty()) {
        fibers_.push_back(std::make_unique<Fiber>([this, i = fibers_.size()] {
          Fiber* self = fibers_[i].get();
          while (!ending_) {
            run_threads(self);
            idle_.push_back(self);
            self->suspend();
          }
        }));
        idle_.push_back(fibers_.back().get());
      }
      Fiber* fiber = idle_.back();
      idle_.pop_back();
      fiber->resume();
    } else {
      try {
        stalled();
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    if (error_) give_up();
  }
}

// Runs threads that have not started, one after another. Threads that never wait need no switch of the fiber.
void Runner::run_threads(Fiber* fiber) {
  do {
    const auto index = static_cast<unsigned>((*order_)[started_++]);
    go_to(index);
    KernelThread& thread = threads_[index];
    thread.fiber = fiber;
    try {
      thread_();
      cuda_double::finish_copies();
    } catch (const GivenUp&) {
    } catch (...) {
      if (!error_) error_ = std::current_exception();
    }
    thread.fiber = nullptr;
    thread.copies.clear();
    ++finished_;
  } while (started_ < count_ && !error_ && !other_first());
}

void Runner::go_to(unsigned thread) {
  current_ = thread;
  threadIdx = coordinates(thread, grid_.threads);
}

unsigned Runner::take_ready() {
  if (random_) std::swap(ready_[(*random_)() % ready_.size()], ready_.back());
  const unsigned thread = ready_.back();
  ready_.pop_back();
  return thread;
}

void Runner::wait(const Call& call) {
  KernelThread& thread = current();
  thread.waits = &call;
  thread.fiber->suspend();
  thread.waits = nullptr;
  if (error_) throw GivenUp{};
}

bool Runner::meet_block(const Call& call, bool predicate) {
  if (at_barrier_.empty()) barrier_name_ = call.name;
  if (barrier_name_ != call.name && std::strcmp(barrier_name_, call.name) != 0)
    fail(std::string("reaches ") + call.name + " while other threads wait at " + barrier_name_);
  any_ = any_ || predicate;
  at_barrier_.push_back(current_);
  if (at_barrier_.size() < count_) {
    wait(call);
  } else {
    for (const unsigned thread : at_barrier_)
      if (thread != current_) make_ready(thread);
    at_barrier_.clear();
    any_of_last_ = any_;
    any_ = false;
  }
  return any_of_last_;
}

WarpRendezvous& Runner::rendezvous(unsigned warp, unsigned mask) {
  auto& all = rendezvous_[warp];
  for (auto& m : all)
    if (m->mask == mask) return *m;
  all.push_back(std::make_unique<WarpRendezvous>());
  all.back()->mask = mask;
  return *all.back();
}

const LaneValue* Runner::meet_warp(const Call& call, unsigned mask, const void* mine, size_t bytes) {
  const unsigned warp = current_ / lanes_of_warp, lane = current_ % lanes_of_warp;
  const unsigned lanes = std::min<unsigned>(lanes_of_warp, count_ - warp * lanes_of_warp);
  const unsigned there = lanes == lanes_of_warp ? ~0u : (1u << lanes) - 1;
  if (!(mask & 1u << lane))
    fail(std::string("calls ") + call.name + " with a mask that does not include the calling lane");
  if (mask & ~there) fail(std::string("calls ") + call.name + " with a mask that includes lanes outside of the block");
  WarpRendezvous& m = rendezvous(warp, mask);
  if (m.here == 0) m.name = call.name;
  if (m.name != call.name && std::strcmp(m.name, call.name) != 0)
    fail(std::string("calls ") + call.name + " where other lanes of its mask call " + m.name);
  LaneValue* const values = m.values[m.turn];
  if (bytes) std::memcpy(values[lane].bytes, mine, bytes);
  m.here |= 1u << lane;
  if (m.here != mask) {
    wait(call);
    return values;
  }
  for (unsigned others = mask & ~(1u << lane); others; others &= others - 1)
    make_ready(warp * lanes_of_warp + static_cast<unsigned>(std::countr_zero(others)));
  m.here = 0;
  m.turn ^= 1;
  return values;
}

std::string Runner::place(unsigned thread) const { return "thread " + text(coordinates(thread, grid_.threads)); }

void Runner::fail(const std::string& why) {
  throw std::runtime_error("[" + grid_.kernel + "] block " + text(blockIdx) + ", " + place(current_) + " " + why);
}

void Runner::stalled() {
  std::ostringstream out;
  out << '[' << grid_.kernel << "] block " << text(blockIdx) << ": ";
  unsigned told = 0, ended = 0;
  const char* waits = nullptr;
  for (unsigned t = 0; t < count_; ++t) {
    const Call* call = threads_[t].waits;
    if (!call) {
      ++ended;
    } else if (!waits || std::strcmp(waits, call->name) != 0) {
      if (told++ > 0) out << ", ";
      out << place(t) << " waits at " << call->name << " (" << call->from.file_name() << ':' << call->from.line()
          << ')';
      waits = call->name;
    }
  }
  for (unsigned t = 0; t < count_ && ended; ++t)
    if (!threads_[t].waits) {
      out << ", " << place(t) << " has ended";
      break;
    }
  throw std::runtime_error(out.str());
}

/// Ends all waiting threads, so that their stacks are unwound, and throws the error.
void Runner::give_up() {
  for (unsigned t = 0; t < count_; ++t)
    if (threads_[t].fiber) {
      go_to(t);
      threads_[t].fiber->resume();
    }
  std::rethrow_exception(error_);
}

Runner& this_runner() {
  if (!runner)
    throw std::logic_error("[cuda double] a thread outside of a kernel calls a function that only kernels may call");
  return *runner;
}

}  // namespace

#ifdef __SANITIZE_ADDRESS__
/// Allows one kernel at a time. Shared memory is a static variable of the process under the address sanitizer, because
/// the sanitizer does not guard thread-local variables.
std::mutex one_kernel;
#endif

void run_grid(const Grid& grid, const std::function<void()>& thread) {
#ifdef __SANITIZE_ADDRESS__
  const std::lock_guard lock(one_kernel);
#endif
  Runner(grid, thread).run();
}

bool meet_block(const Call& call, bool predicate) { return this_runner().meet_block(call, predicate); }
const LaneValue* meet_warp(const Call& call, unsigned mask, const void* mine, size_t bytes) {
  return this_runner().meet_warp(call, mask, mine, bytes);
}
void* dynamic_shared_memory() { return this_runner().shared(); }

void copy_later(void* to, const void* from, size_t bytes, bool wanted) {
  for (const void* p : {static_cast<const void*>(to), from})
    if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
      fail_thread("copies " + std::to_string(bytes) + " bytes from or to an address that is not a multiple of " +
                  std::to_string(bytes));
  this_runner().current().copies.push_back({to, from, bytes, wanted});
}

void finish_copies() {
  auto& copies = this_runner().current().copies;
  for (const Copy& c : copies) {
    if (c.wanted) {
      std::memcpy(c.to, c.from, c.bytes);
    } else {
      std::memset(c.to, 0, c.bytes);
    }
  }
  copies.clear();
}

void fail_thread(const std::string& why) { this_runner().fail(why); }

}  // namespace hexad::cuda_double
