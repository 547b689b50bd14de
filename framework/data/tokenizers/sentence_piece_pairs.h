// Division of a word into parts that a SentencePiece BPE model encodes separately. Words of scripts without spaces are
// long and seldom occur twice; their parts occur often, and their ids can be cached.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/base/utf8.h"

namespace hexad::data {

/// The pairs of neighbouring characters inside the tokens of a model. BPE only merges characters into tokens, so no
/// token of a text contains two neighbours that are not such a pair.
class CharacterPairs {
 public:
  /// Reads the pairs from the contents of a SentencePiece file for which words_are_independent(). Returns nullopt if
  /// parts are not known to be independent: if the model has no byte_fallback, and therefore writes several unknown
  /// characters as one token, or if a token contains `separator`.
  static std::optional<CharacterPairs> of_model(std::string_view model);

  /// A character that no token contains. Characters after it are encoded as if nothing preceded them.
  static constexpr std::string_view separator = "\x01";

  /// Calls f(part, is_first) for consecutive parts of `word`, which together are the word.
  template <class F>
  void for_each_part(std::string_view word, F&& f) const {
    size_t begin = 0, length = 0;
    std::string_view previous;
    for (size_t i = 0; i < word.size(); i += length) {
      const size_t valid = base::utf8_length(word.substr(i));
      const std::string_view character = word.substr(i, valid);
      if (i > 0 && !may_be_joined(previous, character)) {
        f(word.substr(begin, i - begin), begin == 0);
        begin = i;
      }
      previous = character;
      length = valid == 0 ? 1 : valid;
    }
    f(word.substr(begin), begin == 0);
  }

 private:
  CharacterPairs() : pairs_(slots) {}
  void add(std::string_view token);
  /// Returns false only if no token contains the two characters next to each other. An empty text is a byte that is not
  /// UTF-8.
  bool may_be_joined(std::string_view first, std::string_view second) const;

  // A pair sets the element at its hash. Other pairs with the same hash are then not divided, which is slower but
  // right.
  static constexpr size_t slots = 1 << 20;
  std::vector<bool> pairs_;
};

}  // namespace hexad::data
