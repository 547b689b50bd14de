// The search for the cause of a hang. A HangWatch exchanges notes (Transport::Note) with the engines of other ranks: it
// asks what these ranks wait for, answers their questions, and announces its finding to all of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/inquiry.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

/// Error that reports a hang or a lost rank that another rank has detected. A rank that receives this error also ends,
/// but need not print the report again.
class FoundByPeer : public base::Error {
 public:
  using Error::Error;
};

/// Searches for hangs and lost ranks in cooperation with the engines of the other ranks. Used only by the engine's
/// thread.
class HangWatch {
 public:
  explicit HangWatch(Transport& transport) : transport_(transport) {}

  /// Reason for an inquiry.
  enum class Search : uint8_t {
    hangs,      // finds ranks that do not answer, hang in file work, wait for no other rank, or wait in a cycle
    lost_ranks  // finds only ranks that do not answer; ranks that answer may take as long as they need
  };
  /// Starts an inquiry about an overdue wait. An inquiry for a hang replaces an inquiry for lost ranks. In all other
  /// cases, does nothing if an inquiry is in progress. Also does nothing if this rank already has a finding. `wait`,
  /// `own` and `limit` are arguments of Inquiry's constructor.
  void begin(const Standing& wait, const Standing& own, double limit, Search search = Search::hangs);
  /// Ends the inquiry in progress if its reason is `search`. Call this function once the wait has made progress.
  void drop(Search search = Search::hangs) {
    if (search_ == search) inquiry_.reset();
  }
  bool asking(Search search = Search::hangs) const { return inquiry_ && search_ <= search; }

  struct News {
    bool moves = false;         // true if the operation waits for file work that makes progress, so there is no hang
    double quiet_seconds = 0;   // seconds since this file work last made progress
    std::exception_ptr hang{};  // set if the job must end: Error(communication), Error(peer_lost) or FoundByPeer
  };
  /// Sends and receives notes, and returns the findings so far. Must be called regularly, about ten times a second.
  /// `own` returns this rank's answer to questions of other ranks. A finding of this rank is first announced to all
  /// other ranks, and returned half a second later. The other ranks return the announced finding as FoundByPeer.
  /// Exception: a rank that is lower than the announcing rank and has its own finding returns its own finding.
  News listen(const std::function<Standing()>& own);

 private:
  void handle_note(const Transport::Note& note, const std::function<Standing()>& own);
  void announce(const base::Error& found);

  Transport& transport_;
  std::optional<Inquiry> inquiry_;
  Search search_ = Search::hangs;
  int64_t inquiries_ = 0;                // number of inquiries of this rank; answers to earlier inquiries are ignored
  std::optional<base::Error> found_;     // finding of this rank
  int listens_since_finding_ = 0;        // number of calls of listen() since this rank's finding
  std::optional<FoundByPeer> received_;  // finding of another rank
  std::vector<Transport::Note> notes_;
};

}  // namespace hexad::comm
