// Group of ranks with one card each. NCCL executes its collectives on tensors of these cards.
#pragma once

#include "parallel/comm/nccl/channels.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm::nccl {

using base::Dtype;

/// A group over NCCL. Host traffic (small exchanges, barriers, splits, host tensors) uses another group of the same
/// ranks.
///
/// Each class of traffic has one stream inside nodes and one across nodes, shared by all groups. For messages, each
/// route has a stream. Operations of one stream run in the order of the calls. So ranks that share several groups of a
/// class must call their operations in the same order, as ranks of one program do. Operations of different streams
/// begin in the order of the calls, too, but do not wait for each other's ends: all launches that are possible at one
/// time fit on the card together (class_config.h).
///
/// An event is a mark of the class's stream: no host thread waits, and no tensor is kept. A tensor that is freed at
/// once stays valid for the operation, because its memory is reused only after the class's stream has passed the
/// operation (Blocks). The stream that reuses it thereby waits for the other ranks, e.g. until a message is received. A
/// tensor that is changed in place must be changed by a stream that has waited for the event.
///
/// connect() and connect_routes() take the card's memory that NCCL needs. The first operation of a kind for which the
/// ranks are not connected connects them, so it is collective. The first message makes the channels of all pairs. Twins
/// share a communicator, because they also share a stream, but not the channels of messages.
///
/// NCCL guarantees less than ProcessGroup promises. The order of a sum is NCCL's own: results are bitwise identical on
/// all ranks, and from run to run only for one version on the same cards and links. Sums of bf16 are rounded at every
/// step. A maximum or minimum may lose a NaN. With DeviceGroupOptions::sum_of, sums are bitwise identical to those of
/// other groups.
class NcclGroup final : public ProcessGroup {
 public:
  /// Makes a group of the ranks of `control`, which outlives this group unless it is `owned`.
  NcclGroup(std::shared_ptr<CardRank> card, const ProcessGroup& control, std::unique_ptr<ProcessGroup> owned,
            std::shared_ptr<Communicator> communicator, Urgency urgency);
  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> twin(std::string name) const override;
  void connect(Uses uses, Device device) const override;
  void connect_routes(std::span<const Route> routes, Device device) const override;
  const ConnectionMemory& memory() const { return card_->memory(); }

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
  const Urgency urgency_;
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<TrafficStream> stream_;
  mutable std::unique_ptr<Channels> channels_;  // made when the first route is connected
  mutable int64_t operations_ = 0;
};

}  // namespace hexad::comm::nccl
