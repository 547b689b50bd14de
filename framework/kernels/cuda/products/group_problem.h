// The product of one group in one pass.
#pragma once

#include <cstdint>

namespace hexad::kernels::cuda {

enum class GroupedPass : uint8_t { forward, input_gradient, weight_gradient };

/// Product d[m, n] = a b, or d += a b, over k terms. `a`, `b` and `d` are the indices of the first elements in their
/// tensors. A product without elements has m = 0.
struct GroupProblem {
  int32_t m, n, k;
  int64_t a, b, d;
};

/// Returns the problem of group e. The group has rows [begin, end) of x[R, width] and y[R, features], and matrix e of
/// w[E, features, width].
///   forward          y = x w^T     a: x     b: w^T   d: y
///   input gradient   dx = dy w     a: dy    b: w     d: dx
///   weight gradient  dw = dy^T x   a: dy^T  b: x     d: dw
/// If the group has no rows, m is 0. With another m, CUTLASS would store uninitialised accumulators as the weight
/// gradient. The caller must zero the weight gradient of a group without rows if products are not added.
constexpr GroupProblem group_problem(GroupedPass pass, int64_t e, int64_t begin, int64_t end, int64_t features,
                                     int64_t width) {
  const auto rows = static_cast<int32_t>(end - begin), n = static_cast<int32_t>(features),
             d = static_cast<int32_t>(width);
  const int64_t weight = e * features * width;
  if (rows == 0) return {0, 0, 0, 0, 0, 0};
  switch (pass) {
    case GroupedPass::forward:
      return {rows, n, d, begin * width, weight, begin * features};
    case GroupedPass::input_gradient:
      return {rows, d, n, begin * features, weight, begin * width};
    case GroupedPass::weight_gradient:
      break;
  }
  return {n, d, rows, begin * features, begin * width, weight};
}

}  // namespace hexad::kernels::cuda
