// Groups whose messages lie in memory of the card.
#pragma once

#include "framework/device/cuda/reused_buffers.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// For a transport that takes pointers to memory of a card (Topology::takes_cards). What only moves bytes goes through
/// buffers on the card, since tensors lie in mapped pages, which transports cannot share with other processes, or of
/// which they share the first alone. Sums, which the host adds, and all else go the way of the other group.
class CardMessageGroup final : public ProcessGroup {
 public:
  using Buffers = std::shared_ptr<device::cuda::ReusedBuffers>;
  /// The ranks of `other`, which outlives this group unless it is `owned`.
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

/// Makes such a group of all ranks of `world`; null if its transport does not take cards.
std::unique_ptr<ProcessGroup> make_card_messages(const ProcessGroup& world, device::DeviceContext& context);

}  // namespace hexad::comm
