#include "layers/moe/schedule/memory_limit.h"

#include <algorithm>

namespace hexad::moe {

using namespace base;
namespace {

struct ChunkBytes {
  int64_t arriving, computing, returning;
};

// Returns the bytes of a chunk's buffers by stage, for a rank that sends `sent` rows and computes `there` rows. Between
// two stages, rows and their row weights exist twice: packed and unpacked. In backward, two kinds of rows are in
// flight: gradients and inputs.
ChunkBytes bytes_of(int64_t sent, int64_t there, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype) {
  constexpr int64_t companions = 16;  // upper bound of the bytes that are sent with a row: a weight or a scale
  const int64_t row = shape.hidden * size_of(dtype) + companions;
  const int64_t offloaded = there * ((offloads_inputs(memory_reuse) ? shape.hidden : 0) +
                                     (offloads_activations(memory_reuse) ? (shape.gated ? 2 : 1) * shape.width : 0));
  return {.arriving = 2 * row * (sent + 2 * there) + offloaded * size_of(dtype),
          .computing = shape.backward_bytes(there, dtype),
          .returning = 2 * row * (sent + there) + offloaded * size_of(dtype)};
}

}  // namespace

int64_t more_chunks(int64_t chunks, int64_t bytes, int64_t limit) {
  const double wanted = static_cast<double>(chunks) * static_cast<double>(bytes) / static_cast<double>(limit);
  return std::max(chunks + 1, static_cast<int64_t>(wanted));
}

int64_t buffer_bytes(const ep::RoutingCounts& counts, const ExpertShape& shape, ReuseStrategy memory_reuse,
                     Dtype dtype) {
  int64_t most = 0;
  ChunkBytes before{};
  for (const ep::ChunkCounts& chunk : counts.chunks) {
    const ChunkBytes b = bytes_of(chunk.rows_to_send(), chunk.rows_computed(), shape, memory_reuse, dtype);
    most = std::max({most, before.computing + b.arriving, b.computing + before.returning});
    before = b;
  }
  return most;
}

int64_t buffer_bytes(int64_t sent, int64_t there, const ExpertShape& shape, ReuseStrategy memory_reuse, Dtype dtype) {
  const ChunkBytes b = bytes_of(sent, there, shape, memory_reuse, dtype);
  return b.computing + std::max(b.arriving, b.returning);
}

}  // namespace hexad::moe
