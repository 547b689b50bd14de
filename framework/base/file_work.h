// A rank's work on files while other ranks wait for it: announced, with visible progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hexad::base {

/// A handle: copies speak of the same work. Thread-safe: one thread works, others look on.
class FileWork {
 public:
  FileWork();

  /// Announces, for its lifetime, that other ranks may have to wait for files; `what` completes "it is ...". Phases may
  /// nest: the innermost one is named. The handle outlives them.
  class Phase {
   public:
    Phase(const FileWork& work, std::string what);
    ~Phase();
    Phase(const Phase&) = delete;
    Phase& operator=(const Phase&) = delete;

   private:
    const FileWork* work_;
  };
  [[nodiscard]] Phase announce(std::string what) const { return Phase(*this, std::move(what)); }
  /// `bytes` more of `file` were read, written or checked; 0: something else was done to it.
  void moved(std::string_view file, int64_t bytes = 0) const;

  struct State {
    std::string what;
    std::string file;    // the last that moved; empty: none has yet
    int64_t bytes = 0;   // of it
    uint64_t moves = 0;  // since this handle was made; a change shows progress
  };
  /// Returns the present state; nullopt if no phase is open.
  std::optional<State> now() const;

  /// For tests: called after every move, by the thread that works, with State::moves.
  void on_move(std::function<void(uint64_t moves)> hook) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace hexad::base
