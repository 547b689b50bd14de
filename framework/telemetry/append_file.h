// Writing of bytes with errors that must not end the job: a full disk, a closed pipe.
#pragma once

#include <filesystem>
#include <string_view>

namespace hexad::telemetry {

/// Writes all of `bytes` to the file descriptor. Returns 0 or errno. A closed pipe gives EPIPE and never SIGPIPE, for
/// any handler of that signal. `written`, if given, receives the number of bytes written. If a non-blocking descriptor
/// accepts nothing for `patience_ms`, or a signal arrives in that time, returns EAGAIN. A `patience_ms` of -1 waits
/// without limit.
int write_all(int fd, std::string_view bytes, size_t* written = nullptr, int patience_ms = -1);

/// A file to which whole records are appended. If a record fails midway (full disk), the written part is removed, so
/// that the next record follows a complete one.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens the file for appending; creates folders and file. Throws base::Error(resource) naming path and reason.
  explicit AppendFile(const std::filesystem::path& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// Appends all of `record`. Throws base::Error(resource).
  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace hexad::telemetry
