// Threads inside kernels. No other file of this folder handles threads.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Returns the number of threads that a kernel called from this thread may use; 1 until set_thread_count().
int thread_count();
/// Sets thread_count() for kernels called from this thread only.
void set_thread_count(int threads);

namespace detail {
void parallel_for(int64_t count, int64_t grain, void (*call)(const void* body, int64_t begin, int64_t end),
                  const void* body);
}

/// Calls body(begin, end) for pieces of at least `grain` items that cover [0, count), at most as many as there are
/// threads. Pieces depend only on `count`, `grain` and the number of threads; the assignment of pieces to threads
/// depends on free cores. A result must depend on neither pieces nor threads: no sums across items. A loop inside a
/// body runs on one thread. `body` must not throw. Throws Error(resource) if no more threads can be created.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  detail::parallel_for(
      count, grain, [](const void* b, int64_t begin, int64_t end) { (*static_cast<const Body*>(b))(begin, end); },
      &body);
}

/// Returns the minimum number of rows per thread that justifies the thread's start: about 16,000 elements.
inline int64_t row_grain(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

/// Returns the number of threads for a product. Each thread gets at least half a million multiply-adds, which take ten
/// to twenty microseconds.
int threads_for(double multiply_adds);

}  // namespace hexad::kernels::cpu
