// Ranks that are threads of one process: for fast tests and for the thread sanitizer.
#pragma once

#include <functional>

#include "parallel/comm/jitter.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class Rendezvous;

struct ThreadOptions {
  std::vector<int> node_of_rank{};  // empty: one node
  Jitter jitter{};                  // delays of operations; operations of different channels then run in another order
  double watchdog_seconds = 0;      // wait after which a rank throws Error(communication); 0: never
};

/// State shared by the groups of one world.
struct ThreadWorld {
  const ThreadOptions& options;
  DelayLine* delays;  // null: no delays
};

/// Group whose ranks are threads. The rank that arrives last executes the operation, in rank order, and checks the
/// ranks' calls against each other. If ranks call different operations, or with sizes that do not match, all of them
/// get an Error(communication) that names both calls.
class ThreadGroup final : public ProcessGroup {
 public:
  ThreadGroup(ThreadWorld world, std::shared_ptr<Rendezvous> rendezvous, int rank, TrafficClass traffic,
              std::string name, std::shared_ptr<TrafficMeter> meter);
  int rank() const override { return rank_; }
  int size() const override;
  std::unique_ptr<ProcessGroup> split(int color, int key, TrafficClass traffic, std::string name) const override;

 protected:
  Event start(Operation op, Stream& stream) const override;

 private:
  ThreadWorld world_;
  std::shared_ptr<Rendezvous> rendezvous_;
  int rank_;
  mutable int64_t splits_ = 0;
};

/// Runs `body` as `n` ranks. If a rank throws, or ends while other ranks still need it, their operations throw
/// Error(peer_lost) instead of hanging. Rethrows the first failure once all ranks have ended.
void with_ranks(int n, const std::function<void(const ProcessGroup& world)>& body, const ThreadOptions& options = {});

}  // namespace hexad::comm
