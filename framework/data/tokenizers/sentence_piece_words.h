// Encoding of a text word by word, which a SentencePiece model often allows. Words occur again and are cached.
#pragma once

#include <cstddef>
#include <string_view>

namespace hexad::data {

/// Returns true if a text has the ids of its words one after another: the model is a BPE, changes no characters, puts a
/// space before each text, and has no token with a space after another character. `model` is a SentencePiece model.
bool words_are_independent(std::string_view model);

/// Calls f for each word. The space before a word is left out, because the model puts one there. A word keeps further
/// spaces before it, and a space at the end of the text.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  constexpr std::string_view written_space = "\xe2\x96\x81";  // a token may continue from it to a space
  size_t begin = 0;
  for (size_t i = text.find(' ', 1); i != text.npos && i + 1 < text.size(); i = text.find(' ', i + 1)) {
    if (text[i - 1] == ' ' || text.substr(0, i).ends_with(written_space)) continue;
    f(text.substr(begin, i - begin));
    begin = i + 1;
  }
  f(text.substr(begin));
}

}  // namespace hexad::data
