#include <omp.h>

#include <algorithm>

#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels::cpu {

namespace {

// Not OpenMP's own number, which is all cores on threads that never heard of another: those of lanes, of which a rank
// has several.
thread_local int threads_of_kernels = 1;

}  // namespace

int thread_count() { return threads_of_kernels; }
void set_thread_count(int threads) { threads_of_kernels = threads; }

void detail::parallel_for(int64_t count, int64_t grain, void (*call)(const void*, int64_t, int64_t), const void* body) {
  if (count <= 0) return;
  const int64_t pieces = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, thread_count());
  if (pieces == 1) return call(body, 0, count);
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    const int64_t n = omp_get_num_threads(), i = omp_get_thread_num();
    if (count * i / n < count * (i + 1) / n) call(body, count * i / n, count * (i + 1) / n);
  }
}

}  // namespace hexad::kernels::cpu
