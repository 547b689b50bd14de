// A group of ranks, each of which has a communication engine that executes the operations. The ranks are processes or,
// in with_engine_ranks(), threads.
#pragma once

#include "parallel/comm/engine.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class EngineGroup final : public ProcessGroup {
 public:
  /// Makes the group of all ranks of the job. `engine` executes its operations.
  EngineGroup(CommEngine& engine, TrafficClass traffic, std::string name);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_->size()); }
  bool in_one_process() const override { return engine_.topology().in_one_process; }
  /// Splits the group. The ranks agree on the number of the new communicator in one small all_gather. This number is
  /// part of the tags of the communicator's messages. Returns a SelfGroup if the new group has only one rank.
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  /// Like split(), but the ranks agree by an all-reduce of one number. In large groups, each rank sends O(log(size()))
  /// messages for this all-reduce.
  std::unique_ptr<ProcessGroup> subgroup(const std::vector<int>& members, TrafficClass traffic,
                                         std::string name) const override;
  std::unique_ptr<ProcessGroup> urgent(std::string name) const override;
  std::unique_ptr<ProcessGroup> duplicate(std::string name) const override;
  void connect(Uses, Device) const override {}
  void connect_routes(std::span<const Route>, Device) const override {}
  std::unique_ptr<WindowMemory> window_memory() const override { return nullptr; }
  CommEngine& engine() const { return engine_; }

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode code) const override { engine_.abort_job(static_cast<int>(code)); }
  bool takes_device_tensors() const override { return false; }

 private:
  struct Communicator {
    int number = 0;
    Urgency urgency = Urgency::ordinary;
  };
  EngineGroup(CommEngine& engine, Communicator communicator, std::vector<int> members, int rank, TrafficClass traffic,
              std::string name);
  std::unique_ptr<ProcessGroup> make(const Members& members, Urgency urgency, TrafficClass traffic,
                                     std::string name) const;

  CommEngine& engine_;
  Communicator communicator_;
  std::shared_ptr<const std::vector<int>> members_;  // world ranks
  int rank_;
};

}  // namespace hexad::comm
