// Sizes and times of files, by which a later start of a run notices that a model has been replaced.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace hexad::interop {

/// Size in bytes and time of the last change in nanoseconds since 1970.
struct FileStamp {
  int64_t bytes = 0, changed = 0;
  bool operator==(const FileStamp&) const = default;
};
using FileStamps = std::map<std::string, FileStamp>;  // by file name

/// Returns the stamps of files in a folder. Omits files that do not exist.
FileStamps stamps_of(const std::string& folder, std::span<const std::string> names);
/// Returns the name of a file whose stamp in `folder` differs from its stamp in `before`, or that no longer exists.
/// Returns an empty name if there is no such file.
std::string changed_file(const std::string& folder, const FileStamps& before);

}  // namespace hexad::interop
