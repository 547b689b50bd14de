// NVIDIA libraries that are loaded at first use. A program built with CUDA therefore starts without them.
#pragma once

#include <string>

namespace hexad::device::cuda {

/// A shared library that is loaded once and never closed.
class SharedLibrary {
 public:
  /// Loads the library file `name`, such as "libcublasLt.so.13". Searches only the folders in HEXAD_CUDA_LIBRARIES,
  /// separated by colons, if this variable is set. Otherwise first tries the system's loader, then searches the folders
  /// that were known when the program was built.
  /// Throws Error(resource) with the library and the reason if loading fails.
  explicit SharedLibrary(const std::string& name);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Returns the function `name` of type F. Throws Error(resource) if the library does not have this function.
  template <class F>
  F* function(const char* name) const {
    return reinterpret_cast<F*>(address(name));
  }

 private:
  void* address(const char* name) const;
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace hexad::device::cuda
