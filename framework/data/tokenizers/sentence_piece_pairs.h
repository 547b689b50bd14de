// Division of a word into parts that a SentencePiece BPE model encodes separately. Words of scripts without spaces are
// long and seldom occur twice; the parts of these words occur often, and the ids of the parts can be cached.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/base/utf8.h"

namespace hexad::data {

/// The pairs of neighbouring characters inside the tokens of a model. Two neighbouring characters of a text can be in
/// one token only if they are such a pair.
class CharacterPairs {
 public:
  /// Reads the pairs from the contents of a SentencePiece file for which words_are_independent() is true. Returns
  /// nullopt if parts may depend on each other:
  /// - The model has no byte_fallback. Several unknown characters are then encoded as one token.
  /// - A token contains `separator` or is not UTF-8.
  static std::optional<CharacterPairs> from_model(std::string_view model);

  /// Character that is written before a part, because the library inserts a space before each text. No token contains
  /// this character, so the part is encoded as if nothing preceded it.
  static constexpr std::string_view separator = "\x01";

  /// Calls f(part, is_first) for consecutive parts of `word`, which together are the word.
  template <class F>
  void for_each_part(std::string_view word, F&& f) const {
    size_t begin = 0;
    std::string_view previous;  // empty after a byte that is not UTF-8
    for (size_t i = 0; i < word.size();) {
      const size_t valid = base::utf8_length(word.substr(i));
      const std::string_view character = word.substr(i, valid);
      if (i > 0 && !may_be_joined(previous, character)) {
        f(word.substr(begin, i - begin), begin == 0);
        begin = i;
      }
      previous = character;
      i += std::max<size_t>(valid, 1);
    }
    f(word.substr(begin), begin == 0);
  }

 private:
  CharacterPairs() : pairs_(slots) {}
  /// Adds the pairs of a token. Returns false if the token is not UTF-8.
  bool add(std::string_view token);
  /// True if a token may contain the two characters next to each other. An empty string represents a byte that is not
  /// UTF-8.
  bool may_be_joined(std::string_view first, std::string_view second) const;

  // Each pair sets the element at its hash. Two other characters with the same hash then count as a pair, too. Such a
  // false pair costs time but does not change the ids.
  static constexpr int slot_bits = 20;
  static constexpr size_t slots = size_t{1} << slot_bits;
  static size_t slot_of(std::string_view first, std::string_view second);
  std::vector<bool> pairs_;
};

}  // namespace hexad::data
