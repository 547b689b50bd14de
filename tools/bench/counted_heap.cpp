#include "tools/bench/counted_heap.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace hexad::bench {
namespace {

constinit std::atomic<int64_t> in_use = 0, peak = 0;

void count(int64_t bytes) {
  const int64_t now = in_use.fetch_add(bytes) + bytes;
  int64_t most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

}  // namespace

int64_t heap_bytes() { return in_use; }
int64_t heap_peak() { return peak; }
void restart_peak() { peak = in_use.load(); }

}  // namespace hexad::bench

// All other forms of operators new and delete call the forms below. The exceptions are the forms for larger alignments,
// whose allocations are not counted.
void* operator new(std::size_t bytes) {
  void* const block = std::malloc(bytes > 0 ? bytes : 1);
  if (!block) throw std::bad_alloc();
  hexad::bench::count(static_cast<int64_t>(malloc_usable_size(block)));
  return block;
}

void operator delete(void* block) noexcept {
  if (block) hexad::bench::count(-static_cast<int64_t>(malloc_usable_size(block)));
  std::free(block);
}

void operator delete(void* block, std::size_t) noexcept { operator delete(block); }
