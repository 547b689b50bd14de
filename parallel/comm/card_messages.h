// Groups that send messages directly from card memory (GPU memory) and receive them directly into card memory.
#pragma once

#include "framework/device/cuda/reused_buffers.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Group over a transport that accepts addresses in card memory (Topology::takes_cards). Operations that only transfer
/// the bytes of device tensors copy these tensors through separate buffers on the card. The buffers are necessary,
/// because transports can share at most the first page of a tensor's mapped memory with other processes. All other
/// operations, such as sums or operations on host tensors, are passed unchanged to `other`, the group that the
/// constructor gets.
class CardMessageGroup final : public ProcessGroup {
 public:
  using Buffers = std::shared_ptr<device::cuda::ReusedBuffers>;
  /// Makes a group with the ranks of `other`. `owned` is null or points to `other`. If `owned` is null, `other` must
  /// outlive this group.
  CardMessageGroup(Buffers buffers, const ProcessGroup& other, std::unique_ptr<ProcessGroup> owned = nullptr);
  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  bool in_one_process() const override { return other_.in_one_process(); }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> duplicate(std::string name) const override;
  void connect(Uses uses, Device device) const override { other_.connect(uses, device); }
  void connect_routes(std::span<const Route> routes, Device device) const override {
    other_.connect_routes(routes, device);
  }
  std::unique_ptr<WindowMemory> window_memory() const override { return other_.window_memory(); }

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode code) const override { other_.abort_job(code); }
  bool takes_device_tensors() const override { return true; }

 private:
  std::unique_ptr<ProcessGroup> of(std::unique_ptr<ProcessGroup> group) const;

  const Buffers buffers_;
  const std::unique_ptr<ProcessGroup> owned_;
  const ProcessGroup& other_;
};

/// Makes a CardMessageGroup of all ranks of `world`. Returns null if `world` has no communication engine, or if its
/// transport does not accept card memory.
std::unique_ptr<ProcessGroup> make_card_messages(const ProcessGroup& world, device::DeviceContext& context);

}  // namespace hexad::comm
