// Messages between ranks that are threads of one process, each with its own engine. Replaces MPI in tests and in `hexad
// verify`.
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

/// State of the network, which all ranks share. Thread-safe. Its functions do not block. Each message is copied once,
/// when both ranks have requested it: from the memory of the sender to that of the receiver.
///
/// With an adversary, code that uses a buffer too early fails every time instead of rarely. The network then delivers
/// messages in ways that Transport permits, but that are rare on real networks:
/// - No message is delivered until the programs of all ranks are blocked. Data is thus delivered as late as possible.
/// - Then one wire (from, to, tag), chosen by the seed, delivers all its messages. They overtake the messages of other
///   wires.
/// - Buffers that wait for a message contain NaNs.
/// - The data of about half of the messages, chosen by the seed, is read immediately. Later changes of the data are
///   then lost.
///
/// The order of deliveries therefore does not depend on speed. There is one exception: after two seconds without any
/// request or delivery, messages are delivered even if a rank is not blocked.
class ThreadNetwork : public std::enable_shared_from_this<ThreadNetwork> {
 public:
  struct Options {
    std::vector<int> node_of_rank;           // node of each rank
    std::optional<uint64_t> adversary = {};  // seed of the adversary; nullopt: no adversary
    bool takes_cards = false;                // value of Topology::takes_cards
  };
  explicit ThreadNetwork(Options options);
  /// Returns the transport of a rank. Must be called once for each rank. A rank leaves when its transport is destroyed.
  /// Unfinished sends to the rank and unfinished receives from the rank then fail with Error(peer_lost). After abort(),
  /// all messages fail with Error(peer_lost).
  std::unique_ptr<Transport> connect(int rank);
  /// Makes all later requests to the network fail with `reason`. Only the first call has an effect.
  void fail(std::exception_ptr reason);

 private:
  class Endpoint;
  struct Send {
    uint64_t token;
    const std::byte* data;
    int64_t bytes;
    bool may_be_copied;
    bool done = false;              // true once the completion has been reported to the sender
    std::vector<std::byte> copy{};  // copy of the data, if it was read immediately
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
  using Key = std::tuple<int, int, int>;  // (from, to, tag)
  struct Rank {
    std::vector<Transport::Done> done;  // completions that poll() has not reported yet
    std::vector<Transport::Note> notes;
    std::function<void()> wake;
    bool is_waiting = false, ended = false;
    uint64_t sent = 0;  // number of messages sent
  };
  using Clock = std::chrono::steady_clock;

  void send(int rank, int to, int tag, Send message);
  void receive(int rank, int from, int tag, Receive message);
  void wake_with(int rank, std::function<void()> wake);
  void poll(int rank, bool program_waits, std::vector<Transport::Done>& done);
  std::vector<Transport::Pending> pending(int rank, uint64_t token);
  // The functions below also work after a failure, because notes report it.
  void send_note(int to, Transport::Note note);
  void take_notes(int rank, std::vector<Transport::Note>& notes);
  void leave(int rank);

  // The functions below require the mutex:
  Rank& at(int rank) { return ranks_[rank]; }
  void add_completion(int rank, Transport::Done done);
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
  Clock::time_point changed_ = Clock::now();  // time of the last request or delivery
  std::exception_ptr failed_;
};

}  // namespace hexad::comm
