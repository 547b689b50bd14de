// One rank of many, alone in its process: for runs that only count (framework/device/meta).
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// The other ranks are imagined: each of them does what this one does, at the same time, and its tokens choose as this
/// one's do. So what other ranks would have said is what this rank says: a gathering gives its values once for each
/// rank, an all-to-all what it sends to itself, a sum its own value times the number of ranks. On a device only a
/// gathering is known, the rest is forgotten. Nothing is waited for,
/// but a collective holds its tensors until somebody waits for it, as long as a real one may. Bytes are counted as by
/// real groups (Operation::wire_bytes). All ranks are on one node.
class ImaginedGroup final : public ProcessGroup {
 public:
  /// Rank `rank` of `size`.
  ImaginedGroup(int rank, int size, TrafficClass traffic = TrafficClass::control, std::string name = "world",
                std::shared_ptr<TrafficMeter> meter = std::make_shared<TrafficMeter>());
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  /// Throws std::logic_error, because the other ranks' colours are unknown. If the members are known, use subgroup().
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;

 protected:
  Event start(Operation op, Stream& stream) const override;
  bool takes_device_tensors() const override { return true; }

 private:
  int rank_, size_;
};

}  // namespace hexad::comm
