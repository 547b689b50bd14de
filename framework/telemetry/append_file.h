// Writing of bytes, with errors that need not end the job: a full disk, a closed pipe.
#pragma once

#include <filesystem>
#include <string_view>

namespace hexad::telemetry {

/// Writes all of `bytes` to the file descriptor. Returns 0 or errno. A closed pipe results in EPIPE and never in
/// SIGPIPE, whatever the process's handler of that signal is. If `written` is not null, it receives the number of bytes
/// written. If a non-blocking descriptor accepts nothing for `patience_ms` milliseconds, or a signal arrives during
/// this time, returns EAGAIN. If `patience_ms` is -1, waits without limit.
int write_all(int fd, std::string_view bytes, size_t* written = nullptr, int patience_ms = -1);

/// A file to which complete records are appended. If writing a record fails midway (full disk), the part that was
/// written is removed, so that the next record follows a complete one.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens the file for appending. Creates its folders and the file if they do not exist. Throws base::Error(resource)
  /// that names the path and the reason.
  explicit AppendFile(const std::filesystem::path& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// Appends `record`. Throws base::Error(resource) if not all of it can be written.
  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace hexad::telemetry
