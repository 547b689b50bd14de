// Texts of chat templates. Each byte has an origin, so that a message cannot write a special token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hexad::data::jinja {

enum class Origin : char {
  model,   // the template, the role of a turn, or a special token that tokenizer_config.json names
  message  // the text of a turn, or data that comes with a conversation, such as a tool call
};

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin)
      : bytes_(std::move(bytes)), origins_(bytes_.size(), static_cast<char>(origin)) {}

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  Origin origin(size_t at) const { return static_cast<Origin>(origins_[at]); }
  void append(const Text& other) {
    bytes_ += other.bytes_;
    origins_ += other.origins_;
  }
  /// Appends bytes that all have the same origin.
  void append(std::string_view bytes, Origin origin) {
    bytes_ += bytes;
    origins_.append(bytes.size(), static_cast<char>(origin));
  }
  /// Returns `count` bytes from byte `begin`, which must not be beyond the end; fewer if the text ends earlier.
  Text part(size_t begin, size_t count = std::string::npos) const;
  /// True if this text begins with the bytes of `other`, with the same origins.
  bool starts_with(const Text& other) const {
    return bytes_.starts_with(other.bytes_) && origins_.starts_with(other.origins_);
  }

 private:
  std::string bytes_;
  std::string origins_;  // an Origin for each byte
};

enum class Side : uint8_t { both, left, right };

/// Returns the characters that str.strip() of Python removes.
std::span<const std::string_view> white_space();
/// Returns the UTF-8 characters of `text`. A byte that is not UTF-8 counts as a character.
std::vector<std::string_view> characters_of(std::string_view text);
/// Returns the number of bytes of white space at the beginning (leading_white_space) or at the end
/// (trailing_white_space) of `text`.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);
/// Returns `text` without the characters of `removed` at the ends that `side` selects.
Text stripped(const Text& text, std::span<const std::string_view> removed, Side side);

}  // namespace hexad::data::jinja
