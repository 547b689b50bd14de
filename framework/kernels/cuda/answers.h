// Answers to the host's questions about CUDA kernels: plain arithmetic, also for programs without CUDA that count what
// a run there would take (framework/kernels/meta).
#pragma once

#include <algorithm>
#include <cstdint>

namespace hexad::kernels::cuda {

/// Logits of about 512 MiB in f32, since the head's weight gradient is rewritten once a chunk; never below 4096 rows.
inline int64_t chunk_rows(int64_t rows, int64_t vocabulary) {
  constexpr int64_t fewest = 4096, logits = 512 * 1024 * 1024 / 4;
  return std::max<int64_t>(1, std::min(rows, std::max(fewest, logits / std::max<int64_t>(1, vocabulary))));
}

/// Partial sums of a norm's gain gradient.
inline int64_t partials(int64_t rows) {
  constexpr int64_t fewest_rows = 16, most = 264;  // of a partial sum; two blocks a multiprocessor of an H100
  return std::clamp<int64_t>(rows / fewest_rows, 1, most);
}

}  // namespace hexad::kernels::cuda
