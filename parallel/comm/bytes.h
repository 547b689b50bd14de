// Access to tensors as bytes, for transports and copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "framework/tensor/tensor.h"

namespace hexad::comm {

inline std::byte* byte_at(const tensor::Tensor& t, int64_t offset) { return static_cast<std::byte*>(t.raw()) + offset; }

/// Copies `bytes` bytes. Does nothing if `bytes` is 0 or if source and destination are the same. The pointers may be
/// null if `bytes` is 0.
inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace hexad::comm
