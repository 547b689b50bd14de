// Registry of objects that recipes choose by name: built-in objects, and objects that a program adds.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::base {

/// Registry of objects of one type. It is not a global variable, because two programs in one process may have different
/// registries.
template <class T>
class Named {
 public:
  /// Makes a registry of the objects `built_in`. `what` describes the objects in the message about a duplicate name.
  Named(std::string what, std::map<std::string, T> built_in) : what_(std::move(what)), all_(std::move(built_in)) {}

  /// Adds `thing` under the name `name`. Throws std::logic_error if the name exists already.
  void add(const std::string& name, T thing) {
    const bool added = all_.emplace(name, std::move(thing)).second;
    require(added, "[registry] two ", what_, " are named '", name, "'; expected unique names");
  }
  /// Returns the object with this name; nullptr if the name is unknown.
  const T* find(const std::string& name) const {
    const auto it = all_.find(name);
    return it == all_.end() ? nullptr : &it->second;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, thing] : all_) names.push_back(name);
    return names;
  }

 private:
  std::string what_;
  std::map<std::string, T> all_;
};

}  // namespace hexad::base
