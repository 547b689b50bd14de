// Memory that is mapped twice: for the host, which may not touch it, and for the device.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hexad::device::emulated {

/// A range of addresses whose pages come at first use. What the host is given are addresses of a mapping without
/// rights, at which it dies as it would at a card's; the device adds a constant distance. (Changing rights around each
/// kernel would change them for all ranks that are threads of the process.)
class MirroredMemory {
 public:
  /// Throws Error(resource) when the system has no such range.
  explicit MirroredMemory(int64_t bytes);
  ~MirroredMemory();
  MirroredMemory(const MirroredMemory&) = delete;
  MirroredMemory& operator=(const MirroredMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  /// The host's address of a place in the range.
  std::byte* host(int64_t offset) const { return host_ + offset; }
  int64_t offset(const void* host) const { return static_cast<const std::byte*>(host) - host_; }
  bool contains(const void* host) const {
    return host_ <= static_cast<const std::byte*>(host) && static_cast<const std::byte*>(host) < host_ + bytes_;
  }
  /// The device's address of what the host knows under `host`.
  std::byte* device(const void* host) const { return device_ + offset(host); }

 private:
  int64_t bytes_;
  int file_ = -1;
  std::byte *host_ = nullptr, *device_ = nullptr;
};

}  // namespace hexad::device::emulated
