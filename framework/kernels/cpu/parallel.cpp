#include "framework/kernels/cpu/parallel.h"

#include <algorithm>
#include <utility>

#include "framework/kernels/cpu/helpers.h"

namespace hexad::kernels::cpu {

namespace {

// The default is 1, not the number of cores, because a rank may have several threads, such as the threads of its lanes.
// Only one of these threads may use all cores.
thread_local int threads_of_kernels = 1;

// Makes parallel loops run only on this thread during the lifetime of the object.
class Alone {
 public:
  ~Alone() { threads_of_kernels = before_; }

 private:
  int before_ = std::exchange(threads_of_kernels, 1);
};

struct Loop {
  void (*call)(const void* body, int64_t begin, int64_t end);
  const void* body;
  int64_t count;
};

void compute(const void* loop, int64_t piece, int64_t pieces) {
  const auto& [call, body, count] = *static_cast<const Loop*>(loop);
  call(body, count * piece / pieces, count * (piece + 1) / pieces);
}

}  // namespace

int thread_count() { return threads_of_kernels; }
void set_thread_count(int threads) { threads_of_kernels = threads; }

int threads_for(double multiply_adds) {
  return static_cast<int>(std::clamp(multiply_adds / 5e5, 1.0, static_cast<double>(thread_count())));
}

void detail::parallel_for(int64_t count, int64_t grain, void (*call)(const void*, int64_t, int64_t), const void* body) {
  if (count <= 0) return;
  const int64_t pieces = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, thread_count());
  if (pieces == 1) return call(body, 0, count);
  thread_local Helpers helpers;
  const Loop loop{call, body, count};
  const Alone inside;
  helpers.run({compute, &loop, pieces});
}

}  // namespace hexad::kernels::cpu
