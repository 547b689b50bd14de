// Properties of CUDA kernels that can be computed without a card. Programs without CUDA also use them, to estimate a
// run on CUDA (framework/kernels/meta).
#pragma once

#include <algorithm>
#include <cstdint>

namespace hexad::kernels::cuda {

/// Returns CrossEntropyKernels::block_rows, the number of rows of logits that cross-entropy computes at a time. This is
/// the number of rows whose f32 logits fit in 512 MiB, but at least 4096. The result is at most `rows`, but at least 1.
/// Blocks are large, because every block reads and writes the weight gradient of the head.
inline int64_t block_rows(int64_t rows, int64_t vocabulary) {
  constexpr int64_t fewest = 4096, logits = 512 * 1024 * 1024 / 4;
  return std::max<int64_t>(1, std::min(rows, std::max(fewest, logits / std::max<int64_t>(1, vocabulary))));
}

/// Returns RmsNormKernels::partials, the number of partial sums of the gain's gradient.
inline int64_t partials(int64_t rows) {
  // Minimum number of rows per partial sum if there are several partial sums, and maximum number of partial sums: two
  // for each multiprocessor of an H100.
  constexpr int64_t fewest_rows = 16, most = 264;
  return std::clamp<int64_t>(rows / fewest_rows, 1, most);
}

}  // namespace hexad::kernels::cuda
