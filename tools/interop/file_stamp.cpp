#include "tools/interop/file_stamp.h"

#include <sys/stat.h>

#include <optional>

namespace hexad::interop {

namespace {

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  constexpr int64_t second = 1'000'000'000;
  return FileStamp{status.st_size, status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec};
}

}  // namespace

FileStamps stamps_of(const std::string& folder, std::span<const std::string> names) {
  FileStamps stamps;
  for (const std::string& name : names)
    if (const auto stamp = stamp_of(folder + "/" + name)) stamps[name] = *stamp;
  return stamps;
}

std::string changed_file(const std::string& folder, const FileStamps& before) {
  for (const auto& [name, stamp] : before)
    if (stamp_of(folder + "/" + name) != stamp) return name;
  return "";
}

}  // namespace hexad::interop
