// Groups whose messages are in the card's memory.
#pragma once

#include "framework/device/cuda/reused_buffers.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Group over a transport that accepts pointers to a card's memory (Topology::takes_cards). Operations that only move
/// bytes use buffers on the card. The tensors themselves are in mapped pages: transports cannot share these with other
/// processes, or share only the first page. The group given to the constructor executes everything else, including
/// sums, which the host adds.
class CardMessageGroup final : public ProcessGroup {
 public:
  using Buffers = std::shared_ptr<device::cuda::ReusedBuffers>;
  /// Makes a group of the ranks of `other`. `other` outlives this group unless it is `owned`.
  CardMessageGroup(Buffers buffers, const ProcessGroup& other, std::unique_ptr<ProcessGroup> owned = nullptr);
  int rank() const override { return other_.rank(); }
  int size() const override { return other_.size(); }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;

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

/// Makes a CardMessageGroup of all ranks of `world`. Returns null if the transport of `world` does not take card
/// memory.
std::unique_ptr<ProcessGroup> make_card_messages(const ProcessGroup& world, device::DeviceContext& context);

}  // namespace hexad::comm
