// Activities of the GPU, with one record for each kernel, copy or fill.
#pragma once

#include <cstdint>
#include <string_view>

namespace hexad::gpu_profile {

enum class Kind { kernel, memcpy, memset };

struct Activity {
  Kind kind = Kind::kernel;
  std::string_view name;       // a kernel's name is mangled; the recorder owns the text
  int64_t begin = 0, end = 0;  // ns, on a clock chosen by the recorder
  int64_t bytes = 0;           // size of a copy or a fill
  uint32_t stream = 0;         // CUDA's number: lanes are streams
};

}  // namespace hexad::gpu_profile
