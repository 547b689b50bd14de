// Threads of kernels. In this folder, only this file and helpers.h manage threads.
#pragma once

#include <cstdint>

namespace hexad::kernels::cpu {

/// Returns the number of threads that a kernel called from this thread may use; 1 if set_thread_count() was never
/// called.
int thread_count();
/// Sets thread_count() for kernels that are called from this thread.
void set_thread_count(int threads);

namespace detail {
void parallel_for(int64_t count, int64_t grain, void (*call)(const void* body, int64_t begin, int64_t end),
                  const void* body);
}

/// Calls body(begin, end) for pieces that cover [0, count). There are at most as many pieces as threads. Each piece has
/// at least `grain` items if `count` is at least `grain`. Pieces depend only on `count`, `grain` and the number of
/// threads. Each piece is computed by the calling thread or by a helper. Results must not depend on the pieces or
/// threads, so `body` must not sum across items. If there is more than one piece, parallel loops inside the body run on
/// one thread, and `body` must not throw. Throws Error(resource) if a thread cannot be created.
template <class Body>
void parallel_for(int64_t count, int64_t grain, const Body& body) {
  detail::parallel_for(
      count, grain, [](const void* b, int64_t begin, int64_t end) { (*static_cast<const Body*>(b))(begin, end); },
      &body);
}

/// Returns the smallest number of rows of `width` elements for which another thread is worthwhile: about 16,000
/// elements.
inline int64_t row_grain(int64_t width) { return 1 + 16384 / (width > 0 ? width : 1); }

/// Returns the number of threads for a product. If there are several threads, each thread computes at least half a
/// million multiply-adds, which take 10 to 20 microseconds.
int threads_for(double multiply_adds);

}  // namespace hexad::kernels::cpu
