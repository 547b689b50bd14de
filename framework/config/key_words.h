// Words that keys of a recipe may be, for a shell that completes them.
#pragma once

#include <string>
#include <vector>

#include "framework/config/type.h"

namespace hexad::config {

struct KeyWords {
  std::string path;                // "model.moe.score"
  std::vector<std::string> words;  // names of an enumeration, true and false, and how an unset value is spelled
};

/// Returns the keys of a struct that have such words, in its order; elements of lists have no separate key.
std::vector<KeyWords> words_of_keys(void* value, const Type& type);

template <class T>
std::vector<KeyWords> words_of_keys() {
  T value{};
  return words_of_keys(&value, type_of<T>);
}

}  // namespace hexad::config
