// Version and architecture of this program.
#pragma once

#include <string_view>

namespace hexad::train {

extern const std::string_view version;       // "0.5.0"
extern const std::string_view architecture;  // of the processors for which it was compiled

}  // namespace hexad::train
