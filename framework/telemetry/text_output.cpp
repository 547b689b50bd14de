#include "framework/telemetry/text_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "framework/telemetry/append_file.h"

namespace hexad::telemetry {

namespace {

bool understands_control_codes(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && !(term && std::string_view(term) == "dumb");
}

}  // namespace

TextOutput::TextOutput(int fd) : fd_(fd), terminal_(understands_control_codes(fd)) {}

int TextOutput::width() const {
  winsize size{};
  return ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void TextOutput::write(std::string_view text) {
  if (!closed_) closed_ = write_all(fd_, text) != 0;
}

}  // namespace hexad::telemetry
