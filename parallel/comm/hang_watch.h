// Messages of engines about a hang. HangWatch asks other ranks for their waits, answers their questions, and sends the
// finding to all ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/inquiry.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

/// A hang or a lost rank that another rank has found and prints. A rank that receives it also ends, but need not print
/// it again.
class FoundByPeer : public base::Error {
 public:
  using Error::Error;
};

/// Searches for hangs and lost ranks together with the engines of other ranks. Used only by the engine's thread.
class HangWatch {
 public:
  explicit HangWatch(Transport& transport) : transport_(transport) {}

  /// Reason for an inquiry.
  enum class Looks : uint8_t {
    for_hang,       // finds ranks that do not answer, and ranks that wait for no other rank
    for_lost_ranks  // finds only ranks that do not answer: the other ranks may take any time
  };
  /// Starts an inquiry about an overdue wait and drops a running inquiry for lost ranks only. Does nothing if an
  /// inquiry for this reason or for a hang is running, or if this rank has a finding. For the arguments see Inquiry's
  /// constructor.
  void begin(const Standing& wait, const Standing& own, double limit, Looks looks = Looks::for_hang);
  /// Drops the inquiry, because the wait has made progress.
  void drop(Looks looks = Looks::for_hang) {
    if (looks_ == looks) inquiry_.reset();
  }
  bool asking(Looks looks = Looks::for_hang) const { return inquiry_ && looks_ <= looks; }

  struct News {
    bool moves = false;         // true if there is no hang: the operation waits for file work that makes progress
    double quiet_seconds = 0;   // seconds since that file work last moved
    std::exception_ptr hang{};  // set if the job has to end: Error(communication), Error(peer_lost), or FoundByPeer
  };
  /// Sends and receives notes, and returns the result. Called at regular intervals, about ten times a second. Answers
  /// questions of other ranks with `own`. A finding of this rank is returned half a second after it was sent to all
  /// other ranks, so that they can log it.
  News listen(const std::function<Standing()>& own);

 private:
  void hear(const Transport::Note& note, const std::function<Standing()>& own);
  void tell_all(const base::Error& found);

  Transport& transport_;
  std::optional<Inquiry> inquiry_;
  Looks looks_ = Looks::for_hang;
  int64_t inquiries_ = 0;                // number of this rank's inquiries; answers to earlier inquiries are ignored
  std::optional<base::Error> found_;     // finding of this rank
  int listens_since_finding_ = 0;        // calls of listen() since this rank's finding
  std::optional<FoundByPeer> received_;  // finding of another rank
  std::vector<Transport::Note> notes_;
};

}  // namespace hexad::comm
