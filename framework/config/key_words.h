// Words that a recipe's keys accept, for shell completion.
#pragma once

#include <string>
#include <vector>

#include "framework/config/type.h"

namespace hexad::config {

struct KeyWords {
  std::string path;                // "model.moe.score"
  std::vector<std::string> words;  // names of an enumeration, true and false, and the word of an unset value
};

/// Returns the keys of a struct that accept such words, in its order. Elements of lists have no separate key.
std::vector<KeyWords> words_of_keys(void* value, const Type& type);

template <class T>
std::vector<KeyWords> words_of_keys() {
  T value{};
  return words_of_keys(&value, type_of<T>);
}

}  // namespace hexad::config
