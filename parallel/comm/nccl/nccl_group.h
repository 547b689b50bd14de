// Group of ranks with one card each. NCCL executes the collectives on tensors in the memory of the cards.
#pragma once

#include "parallel/comm/nccl/channels.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm::nccl {

using base::Dtype;

/// A group that uses NCCL. Host traffic (small exchanges, barriers, splits, host tensors) uses another group of the
/// same ranks.
///
/// Streams: each class of traffic has one stream for groups inside a node and one stream for groups across nodes. All
/// groups of the class share these streams. Urgent groups have separate streams. For messages, each route has a
/// separate stream. Operations on one stream run in the order of the calls. Therefore ranks that share several groups
/// of a class must call their operations in the same order. Operations on different streams do not wait for each other
/// if all launches that are in flight at the same time fit on the card together (class_config.h).
///
/// Events: an event is a mark on the stream of the operation. It needs no host thread and owns no tensor. A tensor may
/// be freed immediately, because its memory is reused only after the stream has passed the operation
/// (device::cuda::Blocks). The stream that reuses the memory thereby waits for the other ranks, for example until a
/// message is received. Only a stream that has waited for the event may modify a tensor in place.
///
/// Connections: connect() and connect_routes() allocate the card memory that NCCL needs. The first operation of a kind
/// connects the ranks if they are not connected for this kind, and is thus collective. The first message makes the
/// channels of all pairs of ranks if no route is connected. Duplicates share a communicator, because they also share a
/// stream. They do not share the channels of messages.
///
/// Results: NCCL guarantees less than ProcessGroup promises. NCCL chooses the order of a sum. Results are bitwise
/// identical on all ranks. They are bitwise identical from run to run only with the same NCCL version, cards and links.
/// Sums of bf16 are rounded at every step. A maximum or minimum may lose a NaN. With DeviceGroupOptions::sum_of, sums
/// are bitwise identical to the sums of other kinds of groups.
class NcclGroup final : public ProcessGroup {
 public:
  /// Makes a group with the ranks of `control`. `owned` is null or points to `control`. If `owned` is null, `control`
  /// must outlive this group.
  NcclGroup(std::shared_ptr<CardRank> card, const ProcessGroup& control, std::unique_ptr<ProcessGroup> owned,
            std::shared_ptr<Communicator> communicator, Urgency urgency);
  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  bool in_one_process() const override { return false; }
  bool runs_on_devices() const override { return true; }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> duplicate(std::string name) const override;
  void connect(Uses uses, Device device) const override;
  void connect_routes(std::span<const Route> routes, Device device) const override;
  std::unique_ptr<WindowMemory> window_memory() const override;
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
  bool gathers_by_exchange(const Operation& op) const;
  void gather_by_exchange(const Operation& op) const;
  bool sums_in_order(const Operation& op) const;
  void sum_in_order(const Operation& op, Stream& caller) const;
  int64_t piece(Dtype dtype) const;

  const std::shared_ptr<CardRank> card_;
  const std::unique_ptr<ProcessGroup> owned_;
  const ProcessGroup& control_;
  const Urgency urgency_;
  const std::shared_ptr<Communicator> communicator_;
  const std::shared_ptr<TrafficStream> stream_;
  mutable std::unique_ptr<Channels> channels_;  // created when the first route is connected
  mutable int64_t operations_ = 0;
};

}  // namespace hexad::comm::nccl
