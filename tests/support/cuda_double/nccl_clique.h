// Meeting place of the ranks of a communicator of NCCL's double.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace hexad::cuda_double {

/// Single lock and signal for all communicators of the process, because a test has few communicators.
struct NcclWorld {
  std::mutex mutex;
  std::condition_variable changed;
};
NcclWorld& nccl_world();

enum class NcclKind { all_reduce, reduce_scatter, all_gather, broadcast, send, receive };

/// Operation that a rank launches.
struct NcclCall {
  NcclKind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int peer = 0;             // root of a broadcast, or the other rank of a message
  bool registered = false;  // true if its buffers are registered

  bool is_message() const { return kind == NcclKind::send || kind == NcclKind::receive; }
  size_t bytes() const;
};

/// Shared state of a communicator's ranks, guarded by the world's lock. The waiting functions take the lock and release
/// it while they wait. They stop waiting if `gone` becomes true.
class Clique {
 public:
  using Lock = std::unique_lock<std::mutex>;
  explicit Clique(int ranks) : ranks_(ranks), nodes_(ranks, 0) {}
  int ranks() const { return ranks_; }
  void set_node(int rank, int node) { nodes_[rank] = node; }
  /// Returns the node of each rank.
  const std::vector<int>& nodes() const { return nodes_; }
  bool crosses_nodes() const {
    return std::ranges::any_of(nodes_, [&](int n) { return n != nodes_.front(); });
  }

  /// Runs the host's part of a launch. For a collective, waits until every rank has launched at least one collective.
  /// For each message, waits until both ranks have launched at least one message in its direction. Therefore, only the
  /// first launches wait. Returns false if `gone` becomes true.
  bool connect(Lock& lock, int rank, const std::vector<NcclCall>& calls, const bool& gone);
  /// Runs the stream's part: one collective, which is the `number`th of its rank, or messages that were launched
  /// together. As in NCCL, an abort ends only operations that are not complete. The results of these operations are
  /// undefined. Results of complete operations remain.
  void collective(Lock& lock, int rank, int64_t number, const NcclCall& call, const bool& gone);
  void messages(Lock& lock, int rank, const std::vector<NcclCall>& calls, const bool& gone);

  /// Ranks that have reached a split, or the finalization.
  struct Gathering {
    std::map<int, std::pair<int, int>> colors;    // colour and key of each rank
    std::map<int, std::shared_ptr<Clique>> made;  // clique of each colour
  };
  /// Returns the ranks at the `number`th split; at the finalization if `number` is -1.
  Gathering& gathering(int64_t number) { return gatherings_[number]; }
  /// Returns the addresses of the `number`th window by rank, for the ranks that have registered this window.
  std::map<int, const char*>& windows(int64_t number) { return windows_[number]; }

 private:
  struct Message {
    NcclCall call;
    bool done = false;
  };
  struct Wire {                             // messages from one rank to another
    bool sender = false, receiver = false;  // true once the rank has launched a message in this direction
    std::deque<Message*> sent, expected;
  };
  void perform(const std::map<int, NcclCall>& calls) const;
  static void match(Wire& wire);
  Wire& wire_of(int rank, const NcclCall& call);

  const int ranks_;
  std::vector<int> nodes_;
  std::set<int> connected_;
  std::map<int64_t, std::map<int, NcclCall>> rendezvous_;  // calls of a collective, by its number and by rank
  std::set<int64_t> done_;
  std::map<std::pair<int, int>, Wire> wires_;
  std::map<int64_t, Gathering> gatherings_;
  std::map<int64_t, std::map<int, const char*>> windows_;
};

}  // namespace hexad::cuda_double
