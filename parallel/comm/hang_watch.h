// The engines' talk about a hang: asks others what they wait for, answers them, and tells all what was found.
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

  /// A wait is overdue: asks around, unless that is being done already. As Inquiry's constructor.
  void begin(const Standing& wait, const Standing& own, double limit);
  /// It moves after all.
  void drop() { inquiry_.reset(); }
  bool asking() const { return inquiry_.has_value(); }

  struct News {
    bool moves = false;  // what was asked about waits for file work that moves, which was quiet for so many seconds
    double quiet_seconds = 0;
    std::exception_ptr hang{};  // the job has to end: Error(communication), or ToldByPeer
  };
  /// Called at even times, about ten a second: answers with `own`, hears answers, and says what came of it. A hang that
  /// this rank has found is told to all others half a second before it is returned, so that they can write it down.
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
