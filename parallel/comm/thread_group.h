// Ranks that are threads of one process: for fast tests and for the thread sanitizer.
#pragma once

#include <functional>

#include "parallel/comm/jitter.h"
#include "parallel/comm/process_group.h"

namespace hexad::comm {

class Rendezvous;

struct ThreadOptions {
  std::vector<int> node_of_rank{};  // empty: one node
  Jitter jitter{};                  // operations arrive late: those of different channels are done in another order
  double watchdog_seconds = 0;      // ranks that wait this long for others throw Error(communication); 0: for ever
};

/// State shared by the groups of one world.
struct ThreadWorld {
  const ThreadOptions& options;
  DelayLine* delays;  // null: no jitter
};

/// Operations are done by the rank that arrives last, in rank order, and checked against each other: ranks that call
/// different operations, or with sizes that do not match, all get Error(communication) naming both.
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

/// Runs `body` as `n` ranks. When a rank throws, or ends while others still need it, operations of the others throw
/// Error(peer_lost) instead of hanging; the first failure is rethrown once all have ended.
void with_ranks(int n, const std::function<void(const ProcessGroup& world)>& body, const ThreadOptions& options = {});

}  // namespace hexad::comm
