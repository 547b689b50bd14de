#include <array>

#include "framework/kernels/cuda/attention/operands.cuh"
#include "framework/kernels/cuda/scan.cuh"

namespace hexad::kernels::cuda {
namespace {

constexpr int threads = 1024;
constexpr int max_tensors = 9;

struct Offsets {
  int64_t* data;  // [tensors, documents + 1]
  int tensors;
  int64_t distance[max_tensors];  // distance between tokens, in elements
};

// Runs as one block. Each thread processes adjacent tokens, in two passes. First, it counts the documents that begin at
// its tokens. After a scan of the counts, it writes these documents.
__global__ void find(int* lengths, Offsets offsets, const int* first, const int* last, int64_t tokens,
                     int64_t positions, int64_t documents) {
  const int64_t each = (tokens + threads - 1) / threads;
  const int64_t begin = min(threadIdx.x * each, tokens), end = min(begin + each, tokens);
  const auto begins = [&](int64_t token) { return first[token] == token % positions; };
  const auto put = [&](int64_t document, int64_t token, int length) {
    if (document < documents) lengths[document] = length;
#pragma unroll  // without unrolling, `distance` would be copied to local memory
    for (int t = 0; t < max_tensors; ++t)
      if (t < offsets.tensors) offsets.data[t * (documents + 1) + document] = token * offsets.distance[t];
  };
  unsigned found = 0;
  for (int64_t token = begin; token < end; ++token) found += begins(token);
  const Scan scan = block_scan<threads>(found);
  int64_t document = scan.before;
  for (int64_t token = begin; token < end && document < documents; ++token)
    if (begins(token)) put(document++, token, last[token] - first[token]);
  for (int64_t rest = min(static_cast<int64_t>(scan.all), documents) + threadIdx.x; rest <= documents; rest += threads)
    put(rest, tokens, 0);
}

}  // namespace

void find_documents(Stream& stream, const Tensor& lengths, const Tensor& offsets, const DocumentBounds& bounds,
                    int64_t positions, std::span<const int64_t> distances) {
  require(distances.size() <= max_tensors && std::ssize(distances) == offsets.dim(0) &&
              offsets.dim(1) == lengths.dim(0) + 1,
          "[attention] offsets of ", distances.size(), " tensors have shape ", offsets.shape(), ", and lengths ",
          lengths.shape(), "; expected [tensors, documents + 1] and [documents], and at most ", max_tensors,
          " tensors");
  Offsets to{pointer<int64_t>(offsets), static_cast<int>(distances.size()), {}};
  std::ranges::copy(distances, to.distance);
  launch("attention", find, 1, threads, stream, pointer<int32_t>(lengths), to, pointer<int32_t>(bounds.first),
         pointer<int32_t>(bounds.last), bounds.first.numel(), positions, lengths.dim(0));
}

}  // namespace hexad::kernels::cuda
