// What engines say to each other about a hang: asks other ranks what they wait for, answers them, tells all the
// finding.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "parallel/comm/inquiry.h"
#include "parallel/comm/transport.h"

namespace hexad::comm {

/// A hang that another rank has found and prints: whoever gets this ends, too, and need not say it again.
class ToldByPeer : public base::Error {
 public:
  explicit ToldByPeer(const std::string& message) : Error(base::ExitCode::communication, message) {}
};

/// Of the engine's thread alone.
class HangWatch {
 public:
  explicit HangWatch(Transport& transport) : transport_(transport) {}

  /// A wait is overdue: starts an inquiry unless one is under way. Arguments as of Inquiry's constructor.
  void begin(const Standing& wait, const Standing& own, double limit);
  /// The wait has made progress after all.
  void drop() { inquiry_.reset(); }
  bool asking() const { return inquiry_.has_value(); }

  struct News {
    bool moves = false;         // no hang: what was asked about waits for file work that makes progress
    double quiet_seconds = 0;   // since that file work last moved
    std::exception_ptr hang{};  // the job has to end: Error(communication), or ToldByPeer
  };
  /// Called at regular intervals, about ten times a second: answers with `own`, hears answers, and returns the result.
  /// A hang that this rank has found is told to all others half a second before it is returned, so that they can log
  /// it.
  News listen(const std::function<Standing()>& own);

 private:
  void hear(const Transport::Note& note, const std::function<Standing()>& own);
  void tell_all(const std::string& hang);

  Transport& transport_;
  std::optional<Inquiry> inquiry_;
  int64_t inquiries_ = 0;              // answers to earlier ones are passed over
  std::string found_{};                // by this rank
  int told_for_ = 0;                   // calls of listen() since
  std::optional<std::string> told_{};  // by another
  std::vector<Transport::Note> notes_;
};

}  // namespace hexad::comm
