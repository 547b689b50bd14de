#include "framework/base/path_problem.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hexad::base {

namespace fs = std::filesystem;

std::string system_reason(const std::string& path, int error, std::string_view thing) {
  std::error_code failed;
  if (error == ENOENT) {
    const fs::path target = fs::read_symlink(path, failed);
    return failed ? cat("no such ", thing) : cat("is a link to ", target.string(), ", which does not exist");
  }
  if (error == ENOTDIR) {
    for (fs::path above = fs::path(path).parent_path(); !above.empty() && above != above.root_path();
         above = above.parent_path())
      if (fs::exists(above, failed)) return cat("no such ", thing, ": ", above.string(), " is not a directory");
  }
  return std::strerror(error);
}

ExitCode creation_exit_code(const std::error_code& error) {
  const bool name = error == std::errc::filename_too_long || error == std::errc::too_many_symbolic_link_levels;
  return name ? ExitCode::usage : ExitCode::resource;
}

std::string_view kind_of_file(unsigned mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "a regular file";
    case S_IFDIR:
      return "a directory";
    case S_IFLNK:
      return "a link";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
      return "a character device";
    case S_IFBLK:
      return "a block device";
    default:
      return "of an unknown kind";
  }
}

std::string file_problem(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return system_reason(path, errno, "file");
  if (S_ISDIR(status.st_mode)) return "is a directory";
  if (!S_ISREG(status.st_mode)) return cat("is not a regular file but ", kind_of_file(status.st_mode));
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return cat("cannot be opened: ", std::strerror(errno));
  ::close(fd);
  return {};
}

std::string folder_problem(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return system_reason(path, errno, "folder");
  if (!S_ISDIR(status.st_mode)) return cat("is ", kind_of_file(status.st_mode), ", not a folder");
  DIR* folder = ::opendir(path.c_str());
  if (folder == nullptr) return cat("cannot be listed: ", std::strerror(errno));
  ::closedir(folder);
  return {};
}

}  // namespace hexad::base
