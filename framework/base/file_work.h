// Reports of a rank's file operations and their progress, for other ranks that wait for this rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hexad::base {

/// Handle of the file operations of a rank. All copies of the handle refer to the same operations. Thread-safe: one
/// thread does the work, and other threads may call now().
class FileWork {
 public:
  FileWork();

  /// Announces, during the lifetime of this object, that other ranks may have to wait for file work. `what` follows "it
  /// is " in messages, for example "reading a checkpoint". Phases may be nested; now() returns the innermost phase. The
  /// handle must outlive its phases.
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
  /// Reports that `bytes` more bytes of `file` have been read, written or checked. A call with `bytes` = 0 reports
  /// another operation on the file.
  void moved(std::string_view file, int64_t bytes = 0) const;

  struct State {
    std::string what;
    std::string file;    // the file reported last; empty if no report came since the latest phase began
    int64_t bytes = 0;   // bytes reported for `file`; a new phase or another file resets the number to 0
    uint64_t moves = 0;  // number of reports and of phases begun since the handle was made; a change means progress
  };
  /// Returns the state of the innermost open phase; nullopt if no phase is open.
  std::optional<State> now() const;

  /// Sets a function that moved() calls at its end with State::moves. Used by tests and by injected faults.
  void on_move(std::function<void(uint64_t moves)> hook) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace hexad::base
