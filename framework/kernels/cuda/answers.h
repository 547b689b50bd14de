// Answers to the host's questions about CUDA kernels, by plain arithmetic. Programs without CUDA also use them to
// estimate a run on CUDA (framework/kernels/meta).
#pragma once

#include <algorithm>
#include <cstdint>

namespace hexad::kernels::cuda {

/// Returns the number of rows per chunk: rows whose f32 logits take about 512 MiB, at least 4096. Chunks are large
/// because each one rewrites the head's weight gradient.
inline int64_t chunk_rows(int64_t rows, int64_t vocabulary) {
  constexpr int64_t fewest = 4096, logits = 512 * 1024 * 1024 / 4;
  return std::max<int64_t>(1, std::min(rows, std::max(fewest, logits / std::max<int64_t>(1, vocabulary))));
}

/// Returns the number of partial sums of a norm's gain gradient.
inline int64_t partials(int64_t rows) {
  // Minimum rows of a partial sum; maximum number of sums, two blocks per multiprocessor of an H100.
  constexpr int64_t fewest_rows = 16, most = 264;
  return std::clamp<int64_t>(rows / fewest_rows, 1, most);
}

}  // namespace hexad::kernels::cuda
