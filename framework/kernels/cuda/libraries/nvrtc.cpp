// Stubs of the NVRTC functions that the program calls. The first call of a stub loads the library. The library is
// therefore needed only on machines with a card. The stubs have hidden visibility, because NVRTC must call its own
// functions, not the stubs.
#include <nvrtc.h>

#include "framework/device/cuda/shared_library.h"

namespace {

const hexad::device::cuda::SharedLibrary& library() {
  static const hexad::device::cuda::SharedLibrary loaded("libnvrtc.so.13");
  return loaded;
}

}  // namespace

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name, int headers,
                               const char* const* texts, const char* const* names) {
  static const auto real = library().function<decltype(nvrtcCreateProgram)>("nvrtcCreateProgram");
  return real(program, source, name, headers, texts, names);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  static const auto real = library().function<decltype(nvrtcDestroyProgram)>("nvrtcDestroyProgram");
  return real(program);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  static const auto real = library().function<decltype(nvrtcCompileProgram)>("nvrtcCompileProgram");
  return real(program, count, options);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* size) {
  static const auto real = library().function<decltype(nvrtcGetCUBINSize)>("nvrtcGetCUBINSize");
  return real(program, size);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  static const auto real = library().function<decltype(nvrtcGetCUBIN)>("nvrtcGetCUBIN");
  return real(program, cubin);
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* size) {
  static const auto real = library().function<decltype(nvrtcGetProgramLogSize)>("nvrtcGetProgramLogSize");
  return real(program, size);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  static const auto real = library().function<decltype(nvrtcGetProgramLog)>("nvrtcGetProgramLog");
  return real(program, log);
}
