// Messages between ranks, as the communication engine needs them. Only the engine's thread calls a transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/error.h"

namespace hexad::comm {

/// Ranks of a job and their nodes, according to the launcher and the machines.
struct Topology {
  int rank = 0, size = 1;
  std::vector<int> node_of_rank{0};  // indices into node_names
  std::vector<std::string> node_names{""};
  int local_rank = 0;  // number of this rank among the ranks of its node
  std::vector<int64_t> pid_of_rank{};
  bool takes_cards = false;  // messages of all ranks may be in memory of NVIDIA cards allocated by cudaMalloc
};

/// Returns "rank 2 (host a, pid 3142)"; leaves out unknown parts.
std::string name_of(const Topology& topology, int rank);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Topology& topology() const = 0;
  virtual int largest_tag() const = 0;

  /// Condition under which a send counts as done. copied: its data may be overwritten; taken: the receiver has also
  /// requested it.
  enum class SendDone : uint8_t { copied, taken };
  /// Starts a message. Messages of one pair of ranks and one tag arrive in the order in which they started. poll()
  /// returns `token`.
  virtual void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone when) = 0;
  virtual void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) = 0;
  struct Done {
    uint64_t token;
    std::string error{};                                  // empty: the message has arrived
    base::ExitCode code = base::ExitCode::communication;  // exit code of the error
  };
  /// Tells the transport whether the program of this rank is blocked until a message arrives. Called before every
  /// poll(), for networks that deliver at the worst moment (ThreadNetwork).
  virtual void program_waits(bool) {}
  /// Registers `wake`, to be called from any thread whenever poll() has new work or completions. Returns false if this
  /// transport cannot tell, and must be polled.
  virtual bool wake_with(std::function<void()> /*wake*/) { return false; }
  /// Advances the messages. Appends the messages completed since the last call to its argument.
  virtual void poll(std::vector<Done>& done) = 0;
  struct Pending {
    int peer;
    bool receive;
  };
  /// Returns the messages with this token that are not complete, for the report of a hang.
  virtual std::vector<Pending> pending(uint64_t token) const = 0;
  /// A short text from one engine to another. It is delivered in any state of the messages. Sending does not wait.
  /// Notes from one rank to another keep their order.
  struct Note {
    int from;
    std::string text;  // at most longest_note bytes; the rest is dropped
  };
  static constexpr size_t longest_note = 2048;
  virtual void send_note(int to, const std::string& text) = 0;
  /// Appends the notes received since the last call.
  virtual void take_notes(std::vector<Note>& notes) = 0;
  /// Ends every rank of the job with `code`. May not return.
  virtual void abort(int code) = 0;
};

}  // namespace hexad::comm
