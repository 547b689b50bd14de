// Windows of ranks with one card each. NCCL maps the windows into the address spaces of all cards.
#pragma once

#include "parallel/comm/nccl/communicator.h"
#include "parallel/comm/process_group.h"
#include "parallel/comm/window_memory.h"

namespace hexad::comm::nccl {

/// Blocks of NCCL's memory, registered as symmetric windows. Kernels of all ranks access them by NVLink or PCIe (NCCL's
/// load/store access, LSA).
class NcclWindows final : public WindowMemory {
 public:
  /// Makes windows of the ranks of `communicator`. `control` is a group of these ranks and must outlive the windows.
  /// Operations of the communicator run on `stream`.
  NcclWindows(std::shared_ptr<CardRank> card, std::shared_ptr<Communicator> communicator,
              std::shared_ptr<TrafficStream> stream, const ProcessGroup& control);
  /// Frees the block. Leaves the block allocated while an exception propagates, because peers may use the block.
  ~NcclWindows() override;
  NcclWindows(const NcclWindows&) = delete;
  NcclWindows& operator=(const NcclWindows&) = delete;
  std::optional<Block> allocate(int64_t bytes, Device device) override;

 private:
  struct Memory {
    void* begin = nullptr;
    ncclWindow_t window = nullptr;
  };
  /// Allocates and registers memory. Returns an empty result on all ranks if a rank lacks memory or passes
  /// refused = true.
  Memory take(int64_t bytes, bool refused, Device device) const;
  /// Returns true if the call `what` failed for lack of memory. Throws for all other errors.
  bool out_of_memory(ncclResult_t result, std::string_view what) const;
  void refuse_if(bool unfit, Device device) const;
  void free(const Memory& memory) const noexcept;

  const std::shared_ptr<CardRank> card_;
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<TrafficStream> stream_;
  const ProcessGroup& control_;
  const int exceptions_;  // number of exceptions in flight at construction
  Memory memory_;
};

}  // namespace hexad::comm::nccl
