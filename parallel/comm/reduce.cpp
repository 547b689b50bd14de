#include "parallel/comm/reduce.h"

#include <algorithm>
#include <type_traits>

#include "framework/base/block_sizes.h"

namespace hexad::comm {

using namespace base;
namespace {

template <Reduce op, class T>
T combine(T a, T b) {
  if constexpr (op == Reduce::sum) return a + b;
  // The result is NaN if a or b is NaN. If b is NaN, b == b is false. If a is NaN, a < b and b < a are false.
  if constexpr (op == Reduce::max) return a < b || !(b == b) ? b : a;
  if constexpr (op == Reduce::min) return b < a || !(b == b) ? b : a;
}

// Reduces in blocks that fit into the first-level cache, so that memory is read once per source and written once.
template <class T, Reduce op>
void reduce_blocks(T* out, std::span<const void* const> sources, int64_t count) {
  using Sum = std::conditional_t<std::is_same_v<T, bf16>, float, T>;
  Sum sum[BlockSizes::max_cached_elements];
  const int64_t block = block_sizes().cached_elements;
  for (int64_t begin = 0; begin < count; begin += block) {
    const int64_t n = std::min(block, count - begin);
    const auto source = [&](size_t s) { return static_cast<const T*>(sources[s]) + begin; };
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<Sum>(source(0)[i]);
    for (size_t s = 1; s < sources.size(); ++s) {
      const T* x = source(s);
      for (int64_t i = 0; i < n; ++i) sum[i] = combine<op, Sum>(sum[i], static_cast<Sum>(x[i]));
    }
    for (int64_t i = 0; i < n; ++i) out[begin + i] = static_cast<T>(sum[i]);
  }
}

}  // namespace

void reduce(void* out, std::span<const void* const> sources, int64_t count, Dtype dtype, Reduce op) {
  with_dtype<float, bf16, double, int32_t, int64_t, uint8_t>("reduce", dtype, [&]<class T>() {
    T* result = static_cast<T*>(out);
    switch (op) {
      case Reduce::sum:
        return reduce_blocks<T, Reduce::sum>(result, sources, count);
      case Reduce::max:
        return reduce_blocks<T, Reduce::max>(result, sources, count);
      case Reduce::min:
        return reduce_blocks<T, Reduce::min>(result, sources, count);
    }
  });
}

}  // namespace hexad::comm
