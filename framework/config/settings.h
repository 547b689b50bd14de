// List of every key of a recipe with its value.
#pragma once

#include <string>
#include <vector>

#include "framework/config/type.h"

namespace hexad::config {

struct Setting {
  std::string path, value;  // "optim.lr", "0.01"
};

std::vector<Setting> settings(void* value, const Type& type);

/// Returns the settings in the struct's order. A list of sections has one entry per key; any other list is one value.
template <class T>
std::vector<Setting> settings(T value) {
  return settings(&value, type_of<T>);
}

}  // namespace hexad::config
