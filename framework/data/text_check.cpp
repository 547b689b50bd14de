#include "framework/data/text_check.h"

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/base/utf8.h"

namespace hexad::data {
using namespace base;

void require_text(std::string_view contents, const std::string& path) {
  constexpr size_t looked_at = size_t{1} << 20;
  for (size_t i = 0; i < contents.size() && i < looked_at;) {
    const size_t length = utf8_length(contents.substr(i));
    if (length == 0 || contents[i] == '\0')
      fail(ExitCode::data, path, ": is no text: byte ", i, " is ",
           fmt::format("0x{:02x}", static_cast<unsigned char>(contents[i])), length == 0 ? ", which is no UTF-8" : "",
           "; leave the file out, or pass --binary to take bytes as they are");
    i += length;
  }
}

}  // namespace hexad::data
