// Ranks that are threads of one process, for fast tests, the thread sanitizer, `hexad verify` and benchmarks.
#pragma once

#include <functional>

#include "parallel/comm/jitter.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class Rendezvous;

struct ThreadOptions {
  std::vector<int> node_of_rank{};  // node of each rank; empty: all ranks are on one node
  Jitter jitter{};                  // delays that change the order of operations in different groups
  // Maximum delay of a collective. A collective starts once a thread of its rank waits for it, or after this time. A
  // delayed rank holds the tensors of a collective as long as if the other ranks were late. 0: collectives start at
  // once. Messages, and collectives of class pp, start at once, because the schedule of the pipeline limits their
  // delay.
  std::chrono::microseconds patience{0};
  // Pause that ranks make before each send, receive and collective of class pp. Only rank `ahead` of the world makes no
  // pauses. For rank `ahead`, the other stages are then as late as the schedule allows.
  struct StagePause {
    std::chrono::microseconds length{0};
    int ahead = -1;  // -1: all ranks make pauses
  } stage_pause{};
  double watchdog_seconds = 0;  // seconds of waiting until operations fail with Error(communication); 0: never
};

/// State that all groups of one world share.
struct ThreadWorld {
  const ThreadOptions& options;
  DelayLine* delays;  // null: operations are not delayed
};

/// Group whose ranks are threads. The rank that arrives last compares the calls of all ranks and executes the operation
/// in the order of the ranks. Every rank gets Error(communication), which names two of the calls, if the operations or
/// their sizes do not match.
class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(ThreadWorld world, std::shared_ptr<Rendezvous> rendezvous, int rank, TrafficClass traffic,
              std::string name, std::shared_ptr<TrafficMeter> meter);
  int rank() const override { return rank_; }
  int size() const override;
  bool in_one_process() const override { return true; }
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;
  void connect(Uses, Device) const override {}
  void connect_routes(std::span<const Route>, Device) const override {}
  std::unique_ptr<WindowMemory> window_memory() const override { return nullptr; }

 protected:
  Event start(Operation op, Stream& stream) const override;
  void abort_other_ranks(ExitCode) const override {}
  bool takes_device_tensors() const override { return false; }

 private:
  ThreadWorld world_;
  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
};

/// Runs `body` on each of `n` ranks. Operations of the other ranks do not hang, but throw Error(peer_lost), if a rank
/// throws. Operations that wait for a rank throw this error if the rank ends. Rethrows the first exception after all
/// ranks have ended.
void with_ranks(int n, const std::function<void(const ProcessGroup& world)>& body, const ThreadOptions& options = {});

}  // namespace hexad::comm
