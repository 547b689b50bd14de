// Added tokens: texts that are converted to one id each before the model encodes the remaining text.
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
  bool special;                  // true: found only if split() is called with_special
  bool normalized;               // true: searched in the normalized text; false: in the original text
  bool single_word;              // true: found only between characters that are not part of words
  bool strip_left, strip_right;  // true: includes the white space before or after the token
};

/// Finds tokens in a text. If several tokens match at the same position, the longest token is used.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens = {});

  bool empty() const { return tokens_.empty(); }
  /// Calls `on_text` for each non-empty text between tokens and `on_token` for each token, in order. Special tokens are
  /// treated as text unless `with_special` is true. `text` must be valid UTF-8.
  void split(std::string_view text, bool with_special, const std::function<void(std::string_view)>& on_text,
             const std::function<void(int32_t)>& on_token) const;

 private:
  const AddedToken* token_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;                  // longest first
  bool has_ordinary_ = false;                       // true if at least one token is not special
  std::array<std::vector<uint32_t>, 256> by_byte_;  // indices of the tokens that begin with a byte, longest first
};

}  // namespace hexad::data
