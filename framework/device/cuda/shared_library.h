// NVIDIA libraries that are loaded at first use, so that a program built with CUDA starts without them.
#pragma once

#include <string>

namespace hexad::device::cuda {

/// A shared library that is loaded once and never closed.
class SharedLibrary {
 public:
  /// Loads the library file `name`, such as "libcublasLt.so.13". If HEXAD_CUDA_LIBRARIES (A:B) is set, searches its
  /// folders; otherwise asks the loader, then searches the folders of the build. Throws Error(resource) naming the
  /// library and the reason.
  explicit SharedLibrary(const std::string& name);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Returns the function of this name, of type F. Throws Error(resource) if the library does not have it.
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
