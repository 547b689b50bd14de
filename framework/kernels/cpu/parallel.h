// Threads inside kernels. Everything else in this folder is ignorant of them.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Number of threads that a kernel called from this thread may use; 1 until set_thread_count().
int thread_count();
/// Changes that for kernels called from this thread, and for no other.
void set_thread_count(int threads);

namespace detail {
void parallel_for(int64_t count, int64_t grain, void (*call)(const void* body, int64_t begin, int64_t end),
                  const void* body);
}

/// Calls body(begin, end) for pieces of at least `grain` items that cover [0, count), as many as there are threads at
/// most; pieces depend on the three numbers, and who computes one on who has a core. A result must depend on neither:
/// no sums across items. A loop inside a body computes alone. `body` must not throw. Throws Error(resource) when there
/// can be no more threads.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  detail::parallel_for(
      count, grain, [](const void* b, int64_t begin, int64_t end) { (*static_cast<const Body*>(b))(begin, end); },
      &body);
}

/// Rows a thread should get at least, so that starting it pays: about 16,000 elements.
inline int64_t row_grain(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

/// Threads for products: half a million multiply-adds, ten to twenty microseconds, for each at least.
int threads_for(double multiply_adds);

}  // namespace hexad::kernels::cpu
