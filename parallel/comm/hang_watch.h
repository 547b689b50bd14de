// Messages of engines about a hang: asks other ranks what they wait for, answers them, tells all ranks the finding.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/inquiry.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

/// A hang or a lost rank that another rank has found and prints: a rank that gets this ends, too, and need not print it
/// again.
class ToldByPeer : public base::Error {
 public:
  using Error::Error;
};

/// Used by the engine's thread alone.
class HangWatch {
 public:
  explicit HangWatch(Transport& transport) : transport_(transport) {}

  /// The reason for an inquiry.
  enum class Looks : uint8_t {
    for_hang,       // ranks that do not answer, or that wait for nobody
    for_lost_ranks  // ranks that do not answer: others may take as long as they like
  };
  /// A wait is overdue: starts an inquiry, in place of one that looks for less. Arguments as of Inquiry's constructor.
  void begin(const Standing& wait, const Standing& own, double limit, Looks looks = Looks::for_hang);
  /// The wait has made progress after all.
  void drop(Looks looks = Looks::for_hang) {
    if (looks_ == looks) inquiry_.reset();
  }
  bool asking(Looks looks = Looks::for_hang) const { return inquiry_ && looks_ <= looks; }

  struct News {
    bool moves = false;         // no hang: what was asked about waits for file work that makes progress
    double quiet_seconds = 0;   // since that file work last moved
    std::exception_ptr hang{};  // the job has to end: Error(communication), Error(peer_lost), or ToldByPeer
  };
  /// Called at regular intervals, about ten times a second: answers with `own`, hears answers, and returns the result.
  /// A finding of this rank is told to all others half a second before it is returned, so that they can log it.
  News listen(const std::function<Standing()>& own);

 private:
  void hear(const Transport::Note& note, const std::function<Standing()>& own);
  void tell_all(const base::Error& found);

  Transport& transport_;
  std::optional<Inquiry> inquiry_;
  Looks looks_ = Looks::for_hang;
  int64_t inquiries_ = 0;             // answers to earlier ones are passed over
  std::optional<base::Error> found_;  // by this rank
  int told_for_ = 0;                  // calls of listen() since
  std::optional<ToldByPeer> told_;    // by another
  std::vector<Transport::Note> notes_;
};

}  // namespace hexad::comm
