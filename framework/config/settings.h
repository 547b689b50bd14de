// Every key of a recipe with its value.
#pragma once

#include <string>
#include <vector>

#include "framework/config/type.h"

namespace hexad::config {

struct Setting {
  std::string path, value;  // "optim.lr", "0.01"
};

std::vector<Setting> settings(void* value, const Type& type);

/// In the struct's order; lists of sections key by key, other lists as one value.
template <class T>
std::vector<Setting> settings(T value) {
  return settings(&value, type_of<T>);
}

}  // namespace hexad::config
