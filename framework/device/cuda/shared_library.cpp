#include "framework/device/cuda/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <vector>

#include "framework/base/error.h"

namespace hexad::device::cuda {
namespace {

// Adds the path of the file `name` in each of `folders`, a list of the form "A:B".
void add_files(std::vector<std::string>& files, const std::string& folders, const std::string& name) {
  std::istringstream in(folders);
  for (std::string folder; std::getline(in, folder, ':');) files.push_back(base::cat(folder, "/", name));
}

[[noreturn]] void refuse(const std::string& reason) {
  base::fail(
      base::ExitCode::resource, "device: cuda was requested, but ", reason,
      "; install CUDA 13 and cuDNN 9, set HEXAD_CUDA_LIBRARIES to the folder that contains them, or use device: cpu");
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& name) : name_(name) {
  std::vector<std::string> files;
  if (const char* given = std::getenv("HEXAD_CUDA_LIBRARIES")) {
    add_files(files, given, name);
  } else {
    files.push_back(name);
    add_files(files, HEXAD_CUDA_LIBRARY_FOLDERS, name);
  }
  std::string reason = files.empty() ? "HEXAD_CUDA_LIBRARIES names no folder" : "";
  for (const std::string& file : files) {
    handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_) return;
    reason += (reason.empty() ? "" : "; ") + std::string(::dlerror());
    // The next file is tried only if this file, or a library that it needs, does not exist. A damaged library is
    // therefore reported.
    if (!reason.ends_with("No such file or directory")) break;
  }
  refuse(base::cat(name, " cannot be loaded (", reason, ")"));
}

void* SharedLibrary::address(const char* name) const {
  void* found = ::dlsym(handle_, name);
  if (!found)
    refuse(base::cat(name_, " has no ", name,
                     ", because its version differs from the version that this program was built for"));
  return found;
}

}  // namespace hexad::device::cuda
