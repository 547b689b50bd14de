#include "framework/device/emulated/mirrored_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/base/error.h"

namespace hexad::device::emulated {
namespace {

[[noreturn]] void refuse(const char* what, int64_t bytes, const char* remedy = "") {
  base::fail(base::ExitCode::resource, "[emulated device] ", what, " its memory of ", bytes,
             " bytes failed: ", std::strerror(errno), remedy);
}

std::byte* map(int file, int64_t bytes, int rights) {
  void* begin = mmap(nullptr, bytes, rights, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (begin == MAP_FAILED) refuse("mapping", bytes, "; raise the limit of the address space (ulimit -v)");
  return static_cast<std::byte*>(begin);
}

}  // namespace

// Delegates to the private constructor, so that the destructor runs if the body throws.
MirroredMemory::MirroredMemory(int64_t bytes) : MirroredMemory(bytes, memfd_create("hexad-emulated", MFD_CLOEXEC)) {
  if (file_ < 0) refuse("creating", bytes);
  if (ftruncate(file_, bytes) != 0) refuse("sizing", bytes);
  host_ = map(file_, bytes, PROT_NONE);
  device_ = map(file_, bytes, PROT_READ | PROT_WRITE);
}

MirroredMemory::~MirroredMemory() {
  for (std::byte* begin : {host_, device_})
    if (begin) munmap(begin, bytes_);
  if (file_ >= 0) close(file_);
}

}  // namespace hexad::device::emulated
