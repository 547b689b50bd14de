// The tokens of a vocabulary that is being read: names by id and ids by name. Names and ids are unique.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "framework/data/pretokenize.h"
#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

class Vocabulary {
 public:
  /// Adds a token. Throws Error(data) that names `place` if another token has the same id or the same name.
  void add(const std::string& name, int32_t id, const JsonField& place) {
    const size_t index = id;
    if (names_.size() <= index) names_.resize(index + 1), used_.resize(index + 1);
    const auto [found, added] = ids_.emplace(name, id);
    if (used_[index] && names_[index] != name)
      place.fail(": tokens '", names_[index], "' and '", name, "' have the same id, ", id, ", expected distinct ids");
    if (!added && found->second != id)
      place.fail(": token '", name, "' has two ids, ", found->second, " and ", id, ", expected one id");
    names_[index] = name;
    used_[index] = true;
  }
  std::optional<int32_t> id_of(std::string_view name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Returns the names by id; empty for unused ids.
  const std::vector<std::string>& names() const { return names_; }
  int64_t size() const { return static_cast<int64_t>(names_.size()); }

 private:
  std::vector<std::string> names_;
  std::vector<bool> used_;
  PieceMap<int32_t> ids_;
};

}  // namespace hexad::data
