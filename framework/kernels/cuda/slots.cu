// Sorts slots by expert with a stable counting sort. The slots are divided into parts, one per block. First, each block
// counts the slots of its part by expert. From these counts, prefix sums give the first row for the slots of each
// expert in each part. Finally, the blocks write their slots to these rows. If there are more experts (or pairs of a
// chunk and an expert) than counters in a block, a radix sort is used instead.
#include "framework/kernels/cuda/libraries/radix_sort.h"
#include "framework/kernels/cuda/scan.cuh"
#include "framework/kernels/kernel_table.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

constexpr int threads = 256;
/// Number of counters in a block that writes slots. Each warp uses one counter for each expert.
constexpr int counters = 8192;
/// Maximum number of parts. One block sums the counts of an expert, with one thread per part.
constexpr int max_parts = 512;

__global__ void __launch_bounds__(threads) mask_kernel(int32_t* ids, const uint8_t* valid, int64_t slots, int top_k) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < slots && valid[i / top_k] == 0) ids[i] = -1;
}

__global__ void __launch_bounds__(threads) iota_kernel(int64_t* out, int64_t count, int64_t first) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i < count) out[i] = first + i;
}

/// Division of the slots: `part` slots per block and `share` slots per warp. `share` is a multiple of the warp size.
struct Parts {
  int slots, experts, top_k, warps, share, part, count;
};

Parts parts_of(int64_t tokens, int64_t top_k, int64_t experts) {
  Parts p{.slots = static_cast<int>(tokens * top_k),
          .experts = static_cast<int>(experts),
          .top_k = static_cast<int>(top_k),
          .warps = static_cast<int>(std::clamp<int64_t>(counters / std::max<int64_t>(experts, 1), 1, 8)),
          .share = 0,
          .part = 0,
          .count = 0};
  const int warps_in_all = max_parts * p.warps, steps = (p.slots + warps_in_all - 1) / warps_in_all;
  p.share = std::max((steps + warp_size - 1) / warp_size, 2) * warp_size;
  p.part = p.share * p.warps;
  p.count = (p.slots + p.part - 1) / p.part;
  return p;
}

/// Returns the expert of slot i; -1 for a dropped slot and for i >= end.
__device__ int expert_of(const int32_t* ids, int i, int end) { return i < end ? ids[i] : -1; }

/// Computes counts[expert, part].
__global__ void __launch_bounds__(threads) histogram_kernel(unsigned* counts, const int32_t* ids, Parts p) {
  __shared__ unsigned local[counters];
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += threads) local[e] = 0;
  __syncthreads();
  const int begin = static_cast<int>(blockIdx.x) * p.part, end = min(begin + p.part, p.slots);
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += threads)
    if (ids[i] >= 0) atomicAdd(&local[ids[i]], 1u);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += threads)
    counts[int64_t{e} * p.count + blockIdx.x] = local[e];
}

/// Replaces counts[expert, part] by the number of slots that the expert has in earlier parts. There is one block per
/// expert.
__global__ void __launch_bounds__(max_parts) scan_parts_kernel(unsigned* counts, unsigned* totals, int parts) {
  unsigned* const row = counts + int64_t{blockIdx.x} * parts;
  const int part = static_cast<int>(threadIdx.x);
  const Scan scan = block_scan<max_parts>(part < parts ? row[part] : 0);
  if (part < parts) row[part] = scan.before;
  if (part == 0) totals[blockIdx.x] = scan.all;
}

/// Computes offsets[experts + 1] from totals[experts] in a single block.
__global__ void __launch_bounds__(max_parts) offsets_kernel(int64_t* offsets, const unsigned* totals, int experts) {
  unsigned before = 0;
  for (int first = 0; first < experts; first += max_parts) {
    const int e = first + static_cast<int>(threadIdx.x);
    const Scan scan = block_scan<max_parts>(e < experts ? totals[e] : 0);
    if (e < experts) offsets[e] = before + scan.before;
    before += scan.all;
  }
  if (threadIdx.x == 0) offsets[experts] = before;
}

__global__ void __launch_bounds__(threads) place_kernel(int64_t* tokens, int64_t* rows, const int64_t* offsets,
                                                        const unsigned* counts, const int32_t* ids, Parts p) {
  __shared__ unsigned next[counters];  // [warp, expert]: number of the warp's slots, then row of the next slot
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  for (int i = static_cast<int>(threadIdx.x); i < p.warps * p.experts; i += static_cast<int>(blockDim.x)) next[i] = 0;
  __syncthreads();
  const int begin = static_cast<int>(blockIdx.x) * p.part + warp * p.share, end = min(begin + p.share, p.slots);
  unsigned* const mine = next + warp * p.experts;
  for (int i = begin + lane; i < end; i += warp_size)
    if (ids[i] >= 0) atomicAdd(&mine[ids[i]], 1u);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < p.experts; e += static_cast<int>(blockDim.x)) {
    unsigned row = static_cast<unsigned>(offsets[e]) + counts[int64_t{e} * p.count + blockIdx.x];
    for (int w = 0; w < p.warps; ++w) {
      const unsigned count = next[w * p.experts + e];
      next[w * p.experts + e] = row;
      row += count;
    }
  }
  __syncthreads();

  const auto kept = static_cast<int>(offsets[p.experts]);
  for (int first = begin; first < end; first += warp_size) {
    const int i = first + lane, e = expert_of(ids, i, end);
    const unsigned same = __match_any_sync(whole_warp, e), before = same & ((1u << lane) - 1);
    unsigned row = 0;
    if (e >= 0) row = mine[e] + static_cast<unsigned>(__popc(before));
    __syncwarp();
    if (e >= 0 && before == 0) mine[e] += static_cast<unsigned>(__popc(same));
    __syncwarp();
    if (i >= end) continue;
    rows[i] = e >= 0 ? int64_t{row} : -1;
    if (e >= 0) tokens[row] = static_cast<unsigned>(i) / static_cast<unsigned>(p.top_k);
    if (i >= kept) tokens[i] = -1;
  }
}

__global__ void __launch_bounds__(threads)
    keys_kernel(int32_t* keys, const int32_t* ids, const int32_t* chunk_of, int64_t tokens, int64_t slots, int top_k,
                int64_t experts, int64_t chunks) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= slots) return;
  const int32_t e = ids[i];
  int64_t key = -1;
  if (e >= 0 && e < experts)
    key = (chunk_of ? chunk_of[e] : i / top_k * chunks / tokens) * experts + e;
  else if (e != -1)
    key = chunks * experts;
  keys[i] = static_cast<int32_t>(key);
}

/// Writes the rows and tokens of slots that have been sorted by id. Ids are sorted as unsigned numbers, so dropped
/// slots come last.
__global__ void __launch_bounds__(threads) place_sorted_kernel(int64_t* tokens, int64_t* rows, const uint32_t* ids,
                                                               const int32_t* slots, int count, int top_k) {
  const int row = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (row >= count) return;
  const bool kept = static_cast<int32_t>(ids[row]) >= 0;
  tokens[row] = kept ? slots[row] / top_k : -1;
  rows[slots[row]] = kept ? row : -1;
}

/// Sets offsets[e] to the number of sorted ids that are below e.
__global__ void __launch_bounds__(threads)
    sorted_offsets_kernel(int64_t* offsets, const uint32_t* ids, int count, int experts) {
  const int e = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  if (e > experts) return;
  int first = 0, last = count;  // binary search for the first id that is not below e
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (ids[middle] < static_cast<uint32_t>(e))
      first = middle + 1;
    else
      last = middle;
  }
  offsets[e] = first;
}

void sort_many(Stream& stream, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids) {
  const auto count = static_cast<int>(ids.numel()), experts = static_cast<int>(offsets.numel() - 1);
  const SortedIds sorted = sort_ids("slots_sort", stream, ids, experts);
  auto* const sorted_ids = reinterpret_cast<const uint32_t*>(pointer<int32_t>(sorted.ids));
  launch("slots_sort", place_sorted_kernel, blocks_of(count, threads), threads, stream, pointer<int64_t>(tokens),
         pointer<int64_t>(rows), sorted_ids, pointer<int32_t>(sorted.places), count, static_cast<int>(ids.dim(1)));
  launch("slots_sort", sorted_offsets_kernel, blocks_of(experts + 1, threads), threads, stream,
         pointer<int64_t>(offsets), sorted_ids, count, experts);
}

void mask(Stream& stream, const Tensor& ids, const Tensor& valid) {
  const int64_t tokens = ids.dim(0), top_k = ids.dim(1);
  require_flat("slots_mask", "ids", ids, tokens * top_k);
  require_flat("slots_mask", "valid", valid, tokens);
  launch("slots_mask", mask_kernel, blocks_of(ids.numel(), threads), threads, stream, pointer<int32_t>(ids),
         pointer<uint8_t>(valid), ids.numel(), top_k);
}

void sort(Stream& stream, const Tensor& tokens, const Tensor& rows, const Tensor& offsets, const Tensor& ids) {
  require_flat("slots_sort", "ids", ids, ids.dim(0) * ids.dim(1));
  require_shape("slots_sort", "rows", rows, ids.shape());
  require_flat("slots_sort", "rows", rows, ids.numel());
  require_flat("slots_sort", "tokens", tokens, ids.numel());
  require_flat("slots_sort", "offsets", offsets, offsets.numel());
  require(offsets.numel() > 0, "[slots_sort] offsets has no elements; expected one more element than experts");
  require(ids.numel() <= (1 << 30), "[slots_sort] cannot sort ", ids.numel(), " slots of ", ids.dim(0),
          " tokens; expected at most 2^30 slots");
  if (offsets.numel() - 1 > counters && ids.numel() > 0) return sort_many(stream, tokens, rows, offsets, ids);
  const Parts p = parts_of(ids.dim(0), ids.dim(1), offsets.numel() - 1);
  const Tensor counts = Tensor::empty({int64_t{p.experts} * (p.count + 1)}, Dtype::i32, ids.device());
  auto* const count = reinterpret_cast<unsigned*>(pointer<int32_t>(counts));
  unsigned* const totals = count + int64_t{p.experts} * p.count;
  launch("slots_sort", histogram_kernel, p.count, threads, stream, count, pointer<int32_t>(ids), p);
  launch("slots_sort", scan_parts_kernel, p.experts, max_parts, stream, count, totals, p.count);
  launch("slots_sort", offsets_kernel, 1, max_parts, stream, pointer<int64_t>(offsets), totals, p.experts);
  launch("slots_sort", place_kernel, p.count, p.warps * warp_size, stream, pointer<int64_t>(tokens),
         pointer<int64_t>(rows), pointer<int64_t>(offsets), count, pointer<int32_t>(ids), p);
}

void keys(Stream& stream, const Tensor& keys, const Tensor& ids, const Tensor& chunk_of, int64_t experts,
          int64_t chunks) {
  const int64_t slots = ids.dim(0) * ids.dim(1);
  require_flat("slots_keys", "ids", ids, slots);
  require_flat("slots_keys", "keys", keys, slots);
  if (chunk_of.defined()) require_flat("slots_keys", "chunk_of", chunk_of, experts);
  launch("slots_keys", keys_kernel, blocks_of(slots, threads), threads, stream, pointer<int32_t>(keys),
         pointer<int32_t>(ids), pointer<int32_t>(chunk_of), ids.dim(0), slots, static_cast<int>(ids.dim(1)), experts,
         chunks);
}

void iota(Stream& stream, const Tensor& out, int64_t first) {
  require_flat("iota", "out", out, out.numel());
  launch("iota", iota_kernel, blocks_of(out.numel(), threads), threads, stream, pointer<int64_t>(out), out.numel(),
         first);
}

}  // namespace
}  // namespace hexad::kernels::cuda

namespace hexad::kernels {

const SlotKernels SlotKernels::of_cuda{.mask = cuda::mask, .sort = cuda::sort, .keys = cuda::keys, .iota = cuda::iota};

}  // namespace hexad::kernels
