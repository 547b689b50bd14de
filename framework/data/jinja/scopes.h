// Variables of a chat template during its rendering.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/data/jinja/value.h"

namespace hexad::data::jinja {

/// Nested scopes of variables. Each iteration of a loop, the `else` of a loop, a call of a macro and
/// {% generation %} have a scope. An `if` has no scope.
class Scopes {
 public:
  Scopes() : scopes_(1) {}

  /// True if there is only the outermost scope.
  bool outermost() const { return scopes_.size() == 1; }
  /// Returns the number of variables of the outermost scope.
  int64_t variables() const { return std::ssize(scopes_.front()); }
  /// Returns the scopes of a macro: a copy of the outermost scope, and a scope for parameters.
  Scopes macro_scopes() const {
    Scopes inner;
    inner.scopes_.front() = scopes_.front();
    inner.open();
    return inner;
  }
  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }
  void set(const std::string& name, Value value) { scopes_.back()[name] = std::move(value); }
  /// Returns the variable of the innermost scope that has it; undefined if there is none.
  Value get(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    return undefined(name);
  }

 private:
  std::vector<std::map<std::string, Value>> scopes_;
};

}  // namespace hexad::data::jinja
