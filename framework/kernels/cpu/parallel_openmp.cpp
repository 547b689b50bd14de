#include <omp.h>

#include <algorithm>

#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels::cpu {

int thread_count() { return omp_get_max_threads(); }
void set_thread_count(int threads) { omp_set_num_threads(threads); }

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
