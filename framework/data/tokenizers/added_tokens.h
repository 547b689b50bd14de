// Added tokens: texts that become one id before the model sees the rest.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hexad::data {

struct AddedToken {
  int32_t id;
  std::string text;
  bool special;                  // found only if special tokens are asked for
  bool normalized;               // found in the normalized text; otherwise in the original text
  bool single_word;              // found only between characters that are not part of words
  bool strip_left, strip_right;  // takes the white space before or after it
};

/// Finds tokens in a text. Of the tokens that match at one place, the longest is found.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  /// Calls `on_text` for each text between tokens, which is not empty, and `on_token` for each token, in order. Special
  /// tokens are text unless `with_special` is true. `text` is valid UTF-8.
  void split(std::string_view text, bool with_special, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  const AddedToken* token_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;                  // longest first
  bool has_ordinary_ = false;                       // not all tokens are special
  std::array<std::vector<uint32_t>, 256> by_byte_;  // indices of the tokens that begin with a byte, longest first
};

}  // namespace hexad::data
