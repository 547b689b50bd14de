// Addition of a product to a bf16 matrix. The sum of old and new values is rounded only once.
#pragma once

#include <algorithm>

#include "framework/base/block_sizes.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/gemm_tile.h"
#include "framework/kernels/cpu/products/scratch.h"
#include "framework/kernels/cpu/simd/pointwise_loops.h"

namespace hexad::kernels::cpu {

/// Computes c += a b for a bf16 matrix c, in tiles of rows. multiply(tile) must compute a tile with f32 results in
/// scratch memory. The tile is then added to c. A tile has as many rows as fit in a few megabytes, but at least one.
/// The results do not depend on the number of rows of a tile.
template <class Multiply>
void add_rounded(const GemmTile& product, const Multiply& multiply) {
  const auto add = choose<base::bf16>(v3::pointwise_loops, v4::pointwise_loops).axpy.template from<float>();
  const int64_t n = product.n, most = std::clamp<int64_t>(
                                   base::block_sizes().rounded_elements / std::max<int64_t>(n, 1), 1, product.m);
  auto* const sums = static_cast<float*>(scratch(Scratch::sums, most * n * base::size_of(base::Dtype::f32)));
  for (int64_t begin = 0; begin < product.m; begin += most) {
    GemmTile part = product;
    part.m = std::min(most, product.m - begin);
    part.a.data =
        static_cast<const std::byte*>(product.a.data) + begin * product.a.row * base::size_of(product.a.dtype);
    part.c = {sums, base::Dtype::f32, n};
    part.add = false;
    multiply(part);
    parallel_for(part.m, row_grain(n), [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i)
        add(static_cast<base::bf16*>(product.c.data) + (begin + i) * product.c.stride, 1, sums + i * n, n);
    });
  }
}

}  // namespace hexad::kernels::cpu
