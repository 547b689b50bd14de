// Version and architecture of this program.
#pragma once

#include <string_view>

namespace hexad::train {

extern const std::string_view version;       // "0.5.0"
extern const std::string_view architecture;  // "x86-64-v3": processors for which the program was compiled

}  // namespace hexad::train
