#include "framework/data/text_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "framework/base/utf8.h"

namespace hexad::data {
namespace {

using namespace std::string_view_literals;

/// True if all eight bytes are ASCII and none is zero. This fast test accepts nearly all bytes of most texts.
bool is_plain(const char* eight_bytes) {
  constexpr uint64_t ones = 0x0101010101010101, high_bits = 0x8080808080808080;
  uint64_t word = 0;
  std::memcpy(&word, eight_bytes, sizeof word);
  return ((word | (word - ones)) & high_bits) == 0;
}

/// Returns the position of the first byte that is not text; the size of `text` if there is none.
size_t first_bad(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (text.size() - i >= 8 && is_plain(text.data() + i)) {
      i += 8;
      continue;
    }
    const size_t length = base::utf8_length(text.substr(i));
    if (length == 0 || text[i] == '\0') return i;
    i += length;
  }
  return i;
}

/// True if `rest`, which is not UTF-8, is shorter than the character that its first byte announces. Further bytes may
/// then complete the character.
bool may_continue(std::string_view rest) {
  const auto lead = static_cast<unsigned char>(rest.front());
  const size_t length = lead < 0xc2 || lead > 0xf4 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return rest.size() < length;
}

/// Number of bytes at the start of a text that show its encoding.
constexpr size_t encoding_bytes = 64;

/// Returns an encoding such as "UTF-16LE"; empty if no encoding is recognised. Signs of an encoding are a byte order
/// mark, or many zero bytes at only odd or only even positions.
std::string_view wide_encoding(std::string_view text) {
  if (text.starts_with("\xff\xfe\0\0"sv)) return "UTF-32LE";
  if (text.starts_with("\0\0\xfe\xff"sv)) return "UTF-32BE";
  if (text.starts_with("\xff\xfe"sv)) return "UTF-16LE";
  if (text.starts_with("\xfe\xff"sv)) return "UTF-16BE";
  const std::string_view head = text.substr(0, encoding_bytes);
  size_t zeros[2] = {0, 0};
  for (size_t i = 0; i < head.size(); ++i)
    if (head[i] == '\0') ++zeros[i % 2];
  const size_t many = head.size() / 4;  // half of the even, or of the odd, positions
  if (head.size() < 8 || zeros[0] + zeros[1] <= many) return {};
  if (zeros[0] == 0) return "UTF-16LE";
  if (zeros[1] == 0) return "UTF-16BE";
  return {};
}

}  // namespace

TextProblem check_text(std::string_view contents) {
  TextCheck check;
  if (TextProblem problem = check.add(contents)) return problem;
  return check.finish();
}

TextProblem TextCheck::add(std::string_view block) {
  if (head_.size() < encoding_bytes) head_ += block.substr(0, encoding_bytes - head_.size());
  const std::string joined = pending_.empty() ? std::string() : pending_ + std::string(block);
  const std::string_view text = pending_.empty() ? block : std::string_view(joined);
  const size_t at = first_bad(text);
  const auto lines = std::ranges::count(text.substr(0, at), '\n');
  if (at < text.size() && !may_continue(text.substr(at)))
    return problem_at(checked_ + static_cast<int64_t>(at), static_cast<unsigned char>(text[at]), lines_ + lines);
  checked_ += static_cast<int64_t>(at);
  lines_ += lines;
  pending_ = std::string(text.substr(at));
  return {};
}

TextProblem TextCheck::finish() const {
  if (pending_.empty()) return {};
  return problem_at(checked_, static_cast<unsigned char>(pending_.front()), lines_);
}

TextProblem TextCheck::problem_at(int64_t at, unsigned char byte, int64_t lines) const {
  if (const std::string_view encoding = wide_encoding(head_); !encoding.empty())
    return {fmt::format("is {} text, expected UTF-8", encoding),
            fmt::format("to convert it, run `iconv -f {} -t UTF-8`", encoding)};
  const bool zero = byte == 0;
  const std::string where = lines > 0 ? fmt::format(" (line {})", lines + 1) : "";
  return {fmt::format("is not text: byte {} is 0x{:02x}{}{}", at, byte, zero ? "" : ", which is not UTF-8", where),
          zero ? "" : "`iconv -f LATIN1 -t UTF-8` converts Latin-1"};
}

std::string_view without_byte_order_mark(std::string_view contents) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (contents.starts_with(mark)) contents.remove_prefix(mark.size());
  return contents;
}

}  // namespace hexad::data
