// Libraries of NVIDIA's that are loaded when they are needed first, so that a program built with CUDA starts without
// them.
#pragma once

#include <string>

namespace hexad::device::cuda {

/// Loaded once and never closed.
class SharedLibrary {
 public:
  /// `name` is the file's, such as "libcublasLt.so.13". It is looked for in the folders HEXAD_CUDA_LIBRARIES (A:B),
  /// where that is given, else by the loader and then in the folders of the build. Throws Error(resource) naming the
  /// library and the reason.
  explicit SharedLibrary(const std::string& name);
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// The function of this name, of type F. Throws Error(resource) where the library has none.
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
