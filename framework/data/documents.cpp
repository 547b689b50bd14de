#include "framework/data/documents.h"

#include <algorithm>

namespace hexad::data {
namespace {

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos; }

// Returns the position at which the first piece of a text longer than `limit` ends.
size_t cut_position(std::string_view text, size_t limit) {
  const std::string_view head = text.substr(0, limit);
  for (std::string_view boundary : {"\n\n", "\n", " "}) {
    const size_t at = head.rfind(boundary);
    if (at != std::string_view::npos && at + boundary.size() > limit / 2) return at + boundary.size();
  }
  size_t at = limit;
  const auto continues_character = [&](size_t i) { return (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80; };
  while (at > 1 && limit - at < 3 && continues_character(at)) --at;
  return at;
}

void pass_pieces(std::string_view document, int64_t longest_bytes, const std::function<void(std::string_view)>& f) {
  if (is_blank(document)) return f({});
  const size_t limit = longest_bytes;
  while (limit != 0 && document.size() > limit) {
    const size_t n = cut_position(document, limit);
    f(document.substr(0, n));
    document.remove_prefix(n);
  }
  if (!document.empty()) f(document);
}

}  // namespace

void for_each_document(std::string_view text, const DocumentSplit& split,
                       const std::function<void(std::string_view)>& f) {
  if (split.rule == DocumentRule::file) return pass_pieces(text, split.longest_bytes, f);
  const auto separates = [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return split.rule == DocumentRule::blank_lines ? is_blank(line) : line == split.separator;
  };
  size_t begin = 0;  // start of the current document
  for (size_t at = 0; at < text.size();) {
    const size_t newline = std::min(text.find('\n', at), text.size());
    const size_t next = std::min(newline + 1, text.size());
    if (separates(text.substr(at, newline - at))) {
      // Consecutive blank lines are a single boundary. Two consecutive separator lines enclose an empty document.
      if (at > begin || split.rule == DocumentRule::separator) {
        pass_pieces(text.substr(begin, at - begin), split.longest_bytes, f);
      }
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) pass_pieces(text.substr(begin), split.longest_bytes, f);
}

}  // namespace hexad::data
