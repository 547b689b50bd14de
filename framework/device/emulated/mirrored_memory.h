// Memory that is mapped twice: for the host, without access rights, and for the emulated device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hexad::device::emulated {

/// A range of memory that is mapped twice. Its pages are allocated at first use. The host uses addresses in the first
/// mapping, which has no access rights. An access by the host therefore crashes, like an access to a card's address.
/// The device adds a constant offset to reach the second mapping. A single mapping with changing access rights would
/// not work, because all ranks that are threads of the process share these rights.
class MirroredMemory {
 public:
  /// Maps a range of `bytes` bytes. Throws Error(resource) if the system cannot provide a range of this size.
  explicit MirroredMemory(int64_t bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  /// Returns the host address at `offset` bytes from the start of the range.
  std::byte* host(int64_t offset) const { return host_ + offset; }
  int64_t offset(const void* host) const { return static_cast<const std::byte*>(host) - host_; }
  /// True if `host` is a host address in the range.
  bool contains(const void* host) const {
    return host_ <= static_cast<const std::byte*>(host) && static_cast<const std::byte*>(host) < host_ + bytes_;
  }
  /// Returns the device address that corresponds to the host address `host`.
  std::byte* device(const void* host) const { return device_ + offset(host); }

 private:
  MirroredMemory(int64_t bytes, int file) : bytes_(bytes), file_(file) {}

  int64_t bytes_;
  int file_;
  std::byte *host_ = nullptr, *device_ = nullptr;
};

}  // namespace hexad::device::emulated
