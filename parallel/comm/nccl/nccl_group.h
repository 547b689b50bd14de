// Ranks with a card each, whose collectives on tensors of these cards NCCL does.
#pragma once

#include "parallel/comm/nccl/channels.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm::nccl {

using base::Dtype;

/// A group over NCCL. Host traffic (small exchanges, barriers, splits, host tensors) takes another group of its ranks.
///
/// Every class of traffic has a stream of its own inside nodes and one across them, over all groups, and every pair of
/// ranks one in each direction for messages. Operations of one stream run in the order of the calls, so ranks that
/// share several groups of a class call their operations in the same order, as ranks do that run one program. Streams
/// do not wait for each other: all that can be launched at a time fits on the card together (class_config.h).
///
/// An event is a mark of the class's stream: no host waits. The first message of a group is collective: its ways are
/// made then.
///
/// NCCL keeps less than ProcessGroup promises: the order of a sum is its own (the same bits on all ranks, and for one
/// version on the same cards and links), sums of bf16 are rounded at every step, and a maximum or minimum may lose a
/// NaN. With DeviceGroupOptions::sum_of sums are those of other groups, bit for bit.
class NcclGroup final : public ProcessGroup {
 public:
  /// The ranks of `control`, which outlives this group unless it is `owned`.
  NcclGroup(std::shared_ptr<CardRank> card, const ProcessGroup& control, std::unique_ptr<ProcessGroup> owned,
            std::unique_ptr<Communicator> communicator, Urgency urgency);
  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode code) const override { control_.abort_job(code); }
  bool takes_device_tensors() const override { return true; }

 private:
  std::unique_ptr<ProcessGroup> make(int color, int key, std::unique_ptr<ProcessGroup> control, Urgency urgency) const;
  void check_same_split(const std::string& name) const;
  void quiesce() const;
  std::string describe(const Operation& op) const;
  Event message(const Operation& op, Stream& stream) const;
  void launch(const Operation& op, Stream& caller) const;
  void all_to_all(const Operation& op) const;
  bool sums_in_order(const Operation& op) const;
  void sum_in_order(const Operation& op, Stream& caller) const;
  int64_t piece(Dtype dtype) const;

  const std::shared_ptr<CardRank> card_;
  const std::unique_ptr<ProcessGroup> owned_;
  const ProcessGroup& control_;
  const std::unique_ptr<Communicator> communicator_;
  const std::shared_ptr<TrafficStream> stream_;
  mutable std::unique_ptr<Channels> channels_;  // made by the first message
  mutable int64_t operations_ = 0;
};

}  // namespace hexad::comm::nccl
