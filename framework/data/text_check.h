// A picture or an archive among texts would be learnt byte by byte.
#pragma once

#include <string>
#include <string_view>

namespace hexad::data {

/// Throws Error(data) naming file and byte when the beginning of `contents` is no UTF-8 text or has a zero byte.
void require_text(std::string_view contents, const std::string& path);

}  // namespace hexad::data
