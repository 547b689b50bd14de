// Version and architecture of this program.
#pragma once

#include <string_view>

namespace hexad::train {

extern const std::string_view version;       // such as "0.5.0"
extern const std::string_view architecture;  // processors for which the program was compiled, such as "x86-64-v3"

}  // namespace hexad::train
