// Writing to descriptors, and a file to which records are appended. The caller decides whether an error, such as a full
// disk or a closed pipe, ends the job.
#pragma once

#include <filesystem>
#include <string_view>

namespace hexad::telemetry {

/// Writes all of `bytes` to the file descriptor. Returns 0 or errno. A closed pipe results in EPIPE and never in
/// SIGPIPE. `written`, if not null, receives the number of bytes written. Returns EAGAIN if a non-blocking descriptor
/// accepts nothing for `patience_ms` milliseconds, or if a signal arrives during this time. Waits without limit if
/// `patience_ms` is -1.
int write_all(int fd, std::string_view bytes, size_t* written = nullptr, int patience_ms = -1);

/// A file to which complete records are appended. A part of a record that was written to a regular file before an error
/// (full disk) is removed if possible. The next record then follows a complete record.
class AppendFile {
 public:
  AppendFile() = default;
  /// Opens the file for appending. Creates its folders and the file if they do not exist. Throws base::Error(resource),
  /// with the path and the reason, if the file cannot be opened.
  explicit AppendFile(const std::filesystem::path& path);
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// Appends `record`. Throws base::Error(resource) if `record` cannot be written completely. The message says so if an
  /// incomplete record remains.
  void append(std::string_view record);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace hexad::telemetry
