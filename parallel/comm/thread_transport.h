// Messages between ranks that are threads of one process, each with an engine. Replaces MPI.
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

/// State shared by the ranks. Thread-safe; no rank blocks in it. A message is copied once, from the sender's memory to
/// the receiver's, once both ranks have requested it.
///
/// With an adversary, the network does everything that Transport allows but networks seldom do. So code that uses a
/// buffer too early fails every time, not only by chance:
/// - Nothing moves until the programs of all ranks are blocked. So data are read and delivered as late as possible.
/// - Then one wire (from, to, tag) delivers all its messages. These overtake messages of other wires, in an order
///   that the seed decides.
/// - Buffers that wait for a message hold NaNs.
/// - The data of every second message are read immediately, and later changes are lost.
///
/// So the time of a message depends only on the work of programs between two waits, not on any speed. The exception is
/// a rank that computes for two seconds without requesting a message.
class ThreadNetwork : public std::enable_shared_from_this<ThreadNetwork> {
 public:
  struct Options {
    std::vector<int> node_of_rank;           // one entry per rank
    std::optional<uint64_t> adversary = {};  // seed; none: no adversary
    bool takes_cards = false;                // value of Topology::takes_cards
  };
  explicit ThreadNetwork(Options options);
  /// Returns the transport of a rank. Call it once for every rank. A rank leaves when its transport is destroyed.
  /// Messages that need this rank then fail with Error(peer_lost), as all messages do after abort().
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
    bool done = false;              // true once the sender has been notified
    std::vector<std::byte> copy{};  // copy of data that were read immediately
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
    std::vector<Transport::Done> done;  // completions not yet reported to the rank
    std::vector<Transport::Note> notes;
    std::function<void()> wake;
    bool waits = false, gone = false;
    uint64_t sent = 0;  // number of messages
  };
  using Clock = std::chrono::steady_clock;

  void send(int rank, int to, int tag, Send message);
  void receive(int rank, int from, int tag, Receive message);
  void wake_with(int rank, std::function<void()> wake);
  void poll(int rank, bool program_waits, std::vector<Transport::Done>& done);
  std::vector<Transport::Pending> pending(int rank, uint64_t token);
  // These also work after a failure, because notes report it.
  void send_note(int to, Transport::Note note);
  void take_notes(int rank, std::vector<Transport::Note>& notes);
  void leave(int rank);

  // The mutex is held in all of these:
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
  Clock::time_point changed_ = Clock::now();  // time of the last request or delivery of a message
  std::exception_ptr failed_;
};

}  // namespace hexad::comm
