// The build without OpenMP: kernels run on the calling thread.
#include "framework/kernels/cpu/parallel.h"

namespace hexad::kernels::cpu {

int thread_count() { return 1; }
void set_thread_count(int) {}

void detail::parallel_for(int64_t count, int64_t, void (*call)(const void*, int64_t, int64_t), const void* body) {
  if (count > 0) call(body, 0, count);
}

}  // namespace hexad::kernels::cpu
