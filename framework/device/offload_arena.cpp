#include "framework/device/offload_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "framework/base/error.h"

namespace hexad::device {
namespace {

int64_t whole_pages(int64_t bytes) {
  static const int64_t page = sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

}  // namespace

OffloadArena::OffloadArena(const std::string& folder) : folder_(folder) {
  std::string name = folder + "/hexad-offload-XXXXXX";
  file_ = mkstemp(name.data());
  if (file_ < 0)
    base::fail(base::ExitCode::resource, "cannot create an offload file in '", folder, "': ", std::strerror(errno),
               "; set offload.folder to a writable folder");
  unlink(name.c_str());  // the file's space is freed when file_ is closed, even by a crash
}

OffloadArena::~OffloadArena() {
  for (auto& [block, range] : live_) munmap(block, range.size);
  close(file_);
}

void* OffloadArena::allocate(int64_t bytes, Category category) {
  if (bytes == 0) return nullptr;
  const int64_t size = whole_pages(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    const int64_t offset = place(size);
    block = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
    if (block == MAP_FAILED) {
      const int error = errno;
      free_.give(offset, size);
      base::fail(
          base::ExitCode::resource, "cannot map ", size, " bytes of the offload file in '", folder_,
          "': ", std::strerror(error),
          "; raise the maximum number of mappings (vm.max_map_count) or the limit of the address space (ulimit -v)");
    }
    live_.emplace(block, Block{offset, size});
  }
  count(bytes, category);
  return block;
}

int64_t OffloadArena::place(int64_t size) {
  if (const auto offset = free_.take(size)) return *offset;
  const int64_t offset = free_.take_tail(end_), more = offset + size - end_;
  // posix_fallocate fails here if the disk is full. With ftruncate, the first write to the mapping would fail with
  // SIGBUS.
  if (const int error = posix_fallocate(file_, end_, more)) {
    if (offset < end_) free_.give(offset, end_ - offset);
    base::fail(base::ExitCode::resource, "the offload file of ", end_, " bytes in '", folder_, "' cannot grow by ",
               more, " bytes: ", std::strerror(error), "; free space there, or set another offload.folder");
  }
  end_ += more;
  return offset;
}

int64_t OffloadArena::file_bytes() const {
  std::lock_guard lock(mutex_);
  return end_;
}

void OffloadArena::deallocate(void* block, int64_t bytes, Category category) {
  if (!block) return;
  count(-bytes, category);
  std::lock_guard lock(mutex_);
  const auto it = live_.find(block);
  base::require(it != live_.end(), "[offload] the block ", block,
                " was freed, but it is not in this arena; expected one of the ", live_.size(), " blocks of the arena");
  munmap(block, it->second.size);
  free_.give(it->second.offset, it->second.size);
  live_.erase(it);
}

}  // namespace hexad::device
