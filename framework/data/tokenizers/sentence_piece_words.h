// Encoding of a text word by word, which many SentencePiece models permit. The results for words can then be cached.
#pragma once

#include <cstddef>
#include <string_view>

namespace hexad::data {

/// True if the ids of a text are known to be the concatenated ids of its words. The model must be a BPE model that
/// changes no characters and keeps repeated spaces. It must write spaces as U+2581 and insert a space before each text.
/// It must have a token for a space, and no token with a space after another character. `model` is the contents of a
/// SentencePiece file.
bool words_are_independent(std::string_view model);

/// Calls f for each word. One space between two words is omitted, because the model inserts a space before each word.
/// Any other space belongs to the word that follows it or, at the end of the text, to the last word.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  constexpr std::string_view written_space = "\xe2\x96\x81";  // U+2581; a token may contain it and the next space
  size_t begin = 0;
  for (size_t i = text.find(' ', 1); i != text.npos && i + 1 < text.size(); i = text.find(' ', i + 1)) {
    if (text[i - 1] == ' ' || text.substr(0, i).ends_with(written_space)) continue;
    f(text.substr(begin, i - begin));
    begin = i + 1;
  }
  f(text.substr(begin));
}

}  // namespace hexad::data
