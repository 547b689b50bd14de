// Thread blocks that occupy multiprocessors, as communication kernels do while computation runs.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <type_traits>

#include "framework/device/cuda/cuda_stream.h"

namespace hexad::bench {

struct SpinningFlags;

/// Runs thread blocks that spin until the host releases them. Like NCCL's blocks, they have 640 threads and run on a
/// stream of the card's highest priority. On an H100 or a later card, the blocks run in clusters of four if their
/// number is a multiple of four. Blocks that are not released stop after 4e9 clock cycles (two seconds at 2 GHz), so
/// they cannot hang the card.
class SpinningBlocks {
 public:
  static constexpr int most = 16;

  explicit SpinningBlocks(const device::cuda::Card& card);

  /// Calls work() while `blocks` blocks run (at most `most`; 0: without blocks). Begins the call when every block has
  /// reported to the host. Releases the blocks when the call returns or throws. `work` must not load a kernel or
  /// allocate memory, because both operations may wait for the whole card. Throws base::Error (resource) if the blocks
  /// do not start within a second, or if they stopped before work() returned.
  void run_beside(int blocks, const std::function<void()>& work);

 private:
  class Release;
  struct Free {
    void operator()(cudaStream_t stream) const;
    void operator()(SpinningFlags* on_host) const;
    void operator()(unsigned* on_card) const;
  };
  void launch(int blocks);

  bool has_clusters_;
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Free> stream_, release_stream_;
  std::unique_ptr<SpinningFlags, Free> flags_;  // flags in mapped host memory
  std::unique_ptr<unsigned, Free> released_;    // card memory; a nonzero value ends the blocks
};

}  // namespace hexad::bench
