// Messages between ranks that are threads of one process, with an engine each: what MPI would carry, without MPI.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Shared by its ranks. Thread-safe; nobody blocks in it. A message goes from the sender's memory to the receiver's in
/// one copy, once both have asked for it.
///
/// With an adversary it does what Transport allows and a kind network seldom does, so that who uses a buffer too early
/// is found, not with luck but always. Nothing moves until the programs of all ranks stand still: data are read and
/// delivered as late as can be. Then one wire (from, to, tag) delivers all it has: its messages overtake those of
/// other wires, in an order that the seed decides. Buffers that wait for a message hold NaNs. Of every second message
/// the data are read at once, and later changes are lost. So what programs do between two waits decides alone when a
/// message arrives, not the speed of anything, as long as no rank computes for two seconds without asking for one.
class ThreadNetwork : public std::enable_shared_from_this<ThreadNetwork> {
 public:
  struct Options {
    std::vector<int> node_of_rank;           // of as many as there are ranks
    std::optional<uint64_t> adversary = {};  // seed
    bool takes_cards = false;                // Topology's
  };
  explicit ThreadNetwork(Options options);
  /// Call it once for every rank. A rank has left when its transport is destroyed: messages that need it then fail with
  /// Error(peer_lost), as all do after abort().
  std::unique_ptr<Transport> connect(int rank);
  /// Makes all later requests to the network fail with `reason`; only the first reason counts.
  void fail(std::exception_ptr reason);

 private:
  class Endpoint;
  struct Send {
    uint64_t token;
    const std::byte* data;
    int64_t bytes;
    bool may_be_copied;
    bool done = false;              // the sender has been told
    std::vector<std::byte> copy{};  // of data that were read at once
  };
  struct Receive {
    uint64_t token;
    std::byte* data;
    int64_t bytes;
  };
  struct Wire {
    std::deque<Send> sends;
    std::deque<Receive> receives;
    bool matched() const { return !sends.empty() && !receives.empty(); }
  };
  using Key = std::tuple<int, int, int>;  // from, to, tag
  struct Rank {
    std::vector<Transport::Done> done;  // that it has not been told yet
    std::vector<Transport::Note> notes;
    std::function<void()> wake;
    bool waits = false, gone = false;
    uint64_t sent = 0;  // messages
  };
  using Clock = std::chrono::steady_clock;

  void send(int rank, int to, int tag, Send message);
  void receive(int rank, int from, int tag, Receive message);
  void wake_with(int rank, std::function<void()> wake);
  void poll(int rank, bool program_waits, std::vector<Transport::Done>& done);
  std::vector<Transport::Pending> pending(int rank, uint64_t token);
  // Also after a failure, of which they tell.
  void send_note(int to, Transport::Note note);
  void take_notes(int rank, std::vector<Transport::Note>& notes);
  void leave(int rank);

  // All under the mutex:
  Rank& at(int rank) { return ranks_[rank]; }
  void tell(int rank, Transport::Done done);
  void changed(const Key& key, Wire& wire);
  void deliver(const Key& key, Wire& wire);
  void give_up(const Key& key, Wire& wire);
  bool all_ranks_blocked() const;
  void deliver_next();

  const Options options_;
  std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::map<Key, Wire> wires_;
  uint64_t moves_ = 0;
  Clock::time_point changed_ = Clock::now();  // when the last message was asked for or delivered
  std::exception_ptr failed_;
};

}  // namespace hexad::comm
