// Interface for messages between ranks. Only the thread of the communication engine calls a transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/error.h"

namespace hexad::comm {

/// Ranks of a job and their nodes, as reported by the launcher and the machines.
struct Topology {
  int rank = 0, size = 1;
  std::vector<int> node_of_rank{0};  // indices into node_names
  std::vector<std::string> node_names{""};
  int local_rank = 0;  // index of this rank among the ranks of its node; with MPI, HEXAD_LOCAL_RANK if it is set
  std::vector<int64_t> pid_of_rank{};
  bool in_one_process = false;  // true if the ranks are threads of this process
  bool takes_cards = false;     // true if messages on all ranks may be in card memory from cudaMalloc
};

/// Returns a text like "rank 2 (host a, pid 3142)"; "rank 2" if the host or the process is unknown.
std::string name_of(const Topology& topology, int rank);

class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Topology& topology() const = 0;
  virtual int largest_tag() const = 0;

  /// Condition under which a send is done.
  /// - copied: the data has been copied and may be overwritten.
  /// - taken: in addition, the receiver has requested the message.
  enum class SendDone : uint8_t { copied, taken };
  /// The next two functions start to send or receive a message. Messages with the same sender, receiver and tag arrive
  /// in the order in which they were started. poll() returns `token` when the message is done.
  virtual void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone when) = 0;
  virtual void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) = 0;
  struct Done {
    uint64_t token;
    std::string error{};                                  // empty if the message was sent or has arrived
    base::ExitCode code = base::ExitCode::communication;  // exit code if there is an error
  };
  /// Tells the transport whether the program of this rank is blocked until a message arrives. Called before each
  /// poll(). Only ThreadNetwork uses this information, to deliver messages at the worst moment.
  virtual void program_waits(bool waits) = 0;
  /// Registers `wake`. The transport calls it, on any thread, when poll() has a completed message or a failure to
  /// report. Returns false if the transport does not support this and must be polled.
  virtual bool wake_with(std::function<void()> wake) = 0;
  /// Advances the messages. Appends to `done` the messages that have completed or failed since the previous call.
  virtual void poll(std::vector<Done>& done) = 0;
  struct Pending {
    int peer;
    bool receive;
  };
  /// Returns the incomplete messages with this token, for reports of hangs.
  virtual std::vector<Pending> pending(uint64_t token) const = 0;
  /// Short text that one engine sends to another engine. Notes are delivered even if messages are blocked. Sending a
  /// note does not block. Notes with the same sender and receiver keep their order.
  struct Note {
    int from;
    std::string text;  // truncated to longest_note bytes
  };
  static constexpr size_t longest_note = 2048;
  virtual void send_note(int to, const std::string& text) = 0;
  /// Appends the notes that have been received since the previous call.
  virtual void take_notes(std::vector<Note>& notes) = 0;
  /// Ends all ranks of the job. Ranks that are processes exit with `code`, and the call usually does not return. The
  /// messages of ranks that are threads fail with Error(peer_lost).
  virtual void abort(int code) = 0;
};

}  // namespace hexad::comm
