// Activities of the GPU. Each kernel, copy or fill is one record.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::gpu_profile {

enum class Kind { kernel, memcpy, memset };

struct Activity {
  Kind kind = Kind::kernel;
  std::string_view name;       // mangled name of a kernel; the recorder owns the text
  int64_t begin = 0, end = 0;  // ns; the recorder chooses the clock
  int64_t bytes = 0;           // bytes of a copy or a fill
  uint32_t stream = 0;         // CUDA's number of the stream; each lane has its own stream
};

}  // namespace hexad::gpu_profile
