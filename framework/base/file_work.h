// Announcement and progress of a rank's file operations while other ranks wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hexad::base {

/// Handle of file operations; copies refer to the same operations. Thread-safe: one thread works, others may read the
/// state.
class FileWork {
 public:
  FileWork();

  /// Announces, during its lifetime, that other ranks may have to wait for files. `what` follows "it is " in messages,
  /// such as "reading a checkpoint". Phases may nest; now() names the innermost one. The handle outlives its phases.
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
  /// Reports that `bytes` more bytes of `file` were read, written or checked. 0 reports any other operation on the
  /// file.
  void moved(std::string_view file, int64_t bytes = 0) const;

  struct State {
    std::string what;
    std::string file;    // the last file reported; empty before the first report
    int64_t bytes = 0;   // bytes of this file moved so far in this phase
    uint64_t moves = 0;  // counts reports and phases since this handle was made; a change shows progress
  };
  /// Returns the current state; nullopt if no phase is open.
  std::optional<State> now() const;

  /// For tests: sets a function that the working thread calls with State::moves after every moved().
  void on_move(std::function<void(uint64_t moves)> hook) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace hexad::base
