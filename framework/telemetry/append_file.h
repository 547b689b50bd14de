// Writing bytes that must not kill the job: a full disk, a closed pipe.
#pragma once

#include <filesystem>
#include <string_view>

namespace hexad::telemetry {

/// Writes all of `bytes` to the file descriptor; returns 0 or errno. A closed pipe gives EPIPE and never SIGPIPE,
/// whatever the process has set for that signal. `written`, if given, receives how many bytes went out. A non-blocking
/// descriptor that takes nothing for `patience_ms` gives EAGAIN, also when a signal arrives in that time; -1 waits
/// however long.
int write_all(int fd, std::string_view bytes, size_t* written = nullptr, int patience_ms = -1);

/// A file that grows by whole records. A record that fails half way (full disk) is taken back, so the next one, if
/// there is room again, follows a complete one.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens for appending, creating folders and file. Throws base::Error(resource) naming path and reason.
  explicit AppendFile(const std::filesystem::path& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// Appends `record` whole; throws base::Error(resource).
  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace hexad::telemetry
