// Copies of rows to and from the windows of several ranks (PermuteKernels::put and pull), with one warp per row.
#pragma once

#include <cstddef>

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

/// Addresses of rows in the windows of the ranks. A run is a range of rows that are in one window.
struct WindowPlaces {
  std::byte* window;         // this rank's window
  const int64_t* distances;  // distances to the windows of all ranks, in bytes
  const int64_t* runs;       // [3, count]: end, rank, and number to add to the rows, of each run
  int64_t count;             // number of runs
  int64_t row_bytes;

  /// Returns the address of row r.
  __device__ std::byte* operator()(int64_t r) const {
    int64_t first = 0, last = count - 1;  // binary search for the index of the run
    while (first < last) {
      const int64_t middle = (first + last) / 2;
      if (r < runs[middle])
        last = middle;
      else
        first = middle + 1;
    }
    return window + distances[runs[count + first]] + (r + runs[2 * count + first]) * row_bytes;
  }
};

constexpr int window_warps = 8, window_threads = window_warps * warp_size;

/// Destination of a copy: the windows, or this rank's rows.
enum class Towards : uint8_t { windows, rows };

/// Copies `count` rows of `width` words between this rank's rows and their places in the windows. Row r is
/// rows[index[r]], or rows[r] if `index` is null. Rows are `pitch` words apart.
template <Towards towards, class Word>
__global__ void __launch_bounds__(window_threads)
    window_kernel(WindowPlaces places, Word* rows, const int64_t* index, int64_t count, int64_t width, int64_t pitch) {
  constexpr int batch = 4;  // accesses in flight per lane
  const int64_t r = int64_t{blockIdx.x} * window_warps + threadIdx.x / warp_size;
  if (r >= count) return;
  Word* const there = reinterpret_cast<Word*>(places(r));
  Word* const here = rows + (index ? index[r] : r) * pitch;
  const Word* const from = towards == Towards::windows ? here : there;
  Word* const to = towards == Towards::windows ? there : here;
  for (int64_t first = static_cast<int64_t>(threadIdx.x) % warp_size; first < width; first += batch * warp_size) {
    Word held[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < width) held[b] = from[first + b * warp_size];
#pragma unroll
    for (int b = 0; b < batch; ++b)
      if (first + b * warp_size < width) to[first + b * warp_size] = held[b];
  }
}

/// Launches window_kernel with words of 16, 4 or 2 bytes: the widest words that rows and places permit.
template <Towards towards>
void copy_by_window(std::string_view op, Stream& stream, const Tensor& window, const Tensor& distances,
                    const Tensor& runs, const Tensor& rows, const Tensor& index) {
  const int64_t count = index.defined() ? index.numel() : rows.dim(0);
  require(rows.dim(1) <= 1 || rows.strides()[1] == 1, "[", op, "] the last dimension of a tensor of shape ",
          rows.shape(), " has stride ", rows.strides()[1], "; expected 1");
  require_flat(op, "runs", runs, 3 * runs.dim(1));
  if (index.defined()) require_flat(op, "index", index, count);
  const int64_t size = base::size_of(rows.dtype()), row_bytes = rows.dim(1) * size, pitch = rows.strides()[0] * size;
  auto* const begin = static_cast<std::byte*>(tensor::device_raw(window));
  void* const data = tensor::device_raw(rows);
  const WindowPlaces places{begin, pointer<int64_t>(distances), pointer<int64_t>(runs), runs.dim(1), row_bytes};
  const uintptr_t together = reinterpret_cast<uintptr_t>(begin) | reinterpret_cast<uintptr_t>(data) |
                             static_cast<uintptr_t>(row_bytes | pitch);
  require(together % sizeof(unsigned short) == 0, "[", op, "] rows of ", row_bytes, " bytes, ", pitch,
          " bytes apart, begin at ", data, ", and the window begins at ", static_cast<const void*>(begin),
          "; expected each size, distance and address to be a multiple of 2 bytes");
  const auto start = [&]<class Word>(Word* words) {
    constexpr auto bytes = static_cast<int64_t>(sizeof(Word));
    launch(op, window_kernel<towards, Word>, blocks_of(count, window_warps), window_threads, stream, places, words,
           pointer<int64_t>(index), count, row_bytes / bytes, pitch / bytes);
  };
  if (together % sizeof(uint4) == 0)
    start(static_cast<uint4*>(data));
  else if (together % sizeof(unsigned) == 0)
    start(static_cast<unsigned*>(data));
  else
    start(static_cast<unsigned short*>(data));
}

}  // namespace hexad::kernels::cuda
