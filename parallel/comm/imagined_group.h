// One rank of many in a process of its own, for runs that only count (framework/device/meta).
#pragma once

#include "parallel/comm/process_group.h"

namespace hexad::comm {

/// Group whose other ranks are imagined. Each of these does the same as this rank at the same time, and its tokens
/// choose the same experts. So this rank's values replace those of the other ranks. An all-gather repeats them for each
/// rank. An all-to-all returns the message of this rank to itself. A sum multiplies them by the number of ranks. On a
/// device, only the result of an all-gather is known. Operations wait for nothing. A collective holds its tensors until
/// a thread waits for it, which is the longest time that a real one may hold them. Bytes are counted as in real groups
/// (Operation::wire_bytes). All ranks are on one node.
class ImaginedGroup final : public ProcessGroup {
 public:
  /// Makes the group of rank `rank` of `size`.
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
