// Memory that is mapped twice: for the host, which may not access it, and for the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hexad::device::emulated {

/// A range of addresses whose pages are allocated at first use. The host gets addresses of a mapping without access
/// rights, so an access by the host crashes as it would at a card's address. The device adds a constant offset to reach
/// the second mapping. (Changing access rights around each kernel would affect all ranks that are threads of the
/// process.)
class MirroredMemory {
 public:
  /// Throws Error(resource) if the system cannot provide such a range.
  explicit MirroredMemory(int64_t bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  /// Returns the host's address of an offset in the range.
  std::byte* host(int64_t offset) const { return host_ + offset; }
  int64_t offset(const void* host) const { return static_cast<const std::byte*>(host) - host_; }
  bool contains(const void* host) const {
    return host_ <= static_cast<const std::byte*>(host) && static_cast<const std::byte*>(host) < host_ + bytes_;
  }
  /// Returns the device's address for the host's address `host`.
  std::byte* device(const void* host) const { return device_ + offset(host); }

 private:
  int64_t bytes_;
  int file_ = -1;
  std::byte *host_ = nullptr, *device_ = nullptr;
};

}  // namespace hexad::device::emulated
