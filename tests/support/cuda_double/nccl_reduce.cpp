#include "tests/support/cuda_double/nccl_reduce.h"

#include <cmath>
#include <type_traits>

#include "framework/base/dtype.h"

namespace hexad::cuda_double {
namespace {

template <class T>
T combine(T a, T b, ncclRedOp_t op) {
  if constexpr (std::is_same_v<T, base::bf16>)
    return T(combine(static_cast<float>(a), static_cast<float>(b), op));
  else if (op == ncclSum)
    return static_cast<T>(a + b);
  else if constexpr (std::is_floating_point_v<T>)  // ignores a NaN, like the card's instructions
    return op == ncclMax ? std::fmax(a, b) : std::fmin(a, b);
  else
    return op == ncclMax ? (a < b ? b : a) : (b < a ? b : a);
}

template <class T>
void reduce(void* out, const std::vector<const void*>& in, size_t count, ncclRedOp_t op, int last) {
  const size_t ranks = in.size();
  for (size_t i = 0; i < count; ++i) {
    const auto of = [&](size_t step) {
      return static_cast<const T*>(in[(static_cast<size_t>(last) + step) % ranks])[i];
    };
    T sum = of(1);
    for (size_t step = 2; step <= ranks; ++step) sum = combine(sum, of(step), op);
    static_cast<T*>(out)[i] = sum;
  }
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

bool can_reduce(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16 || type == ncclInt64 || type == ncclInt32 ||
         type == ncclUint8;
}

void reduce_in_ring(void* out, const std::vector<const void*>& in, size_t count, ncclDataType_t type, ncclRedOp_t op,
                    int last) {
  switch (type) {
    case ncclFloat32:
      return reduce<float>(out, in, count, op, last);
    case ncclFloat64:
      return reduce<double>(out, in, count, op, last);
    case ncclBfloat16:
      return reduce<base::bf16>(out, in, count, op, last);
    case ncclInt64:
      return reduce<int64_t>(out, in, count, op, last);
    case ncclInt32:
      return reduce<int32_t>(out, in, count, op, last);
    default:
      return reduce<uint8_t>(out, in, count, op, last);
  }
}

}  // namespace hexad::cuda_double
