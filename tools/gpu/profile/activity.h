// Activities of the GPU. Each kernel, copy or fill is one record.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::gpu_profile {

enum class Kind { kernel, memcpy, memset };

struct Activity {
  Kind kind = Kind::kernel;
  std::string_view name;       // mangled name of a kernel; the recorder owns the text
  int64_t begin = 0, end = 0;  // ns, on a clock that the recorder chooses
  int64_t bytes = 0;           // bytes of a copy or a fill
  uint32_t stream = 0;         // CUDA's number of the stream; lanes are streams
};

}  // namespace hexad::gpu_profile
