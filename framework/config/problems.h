// Problems of a recipe, collected so that a user sees everything at once.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/config/document.h"

namespace hexad::config {

class Problems {
 public:
  /// A rule between keys is broken. `path` is a key that was read, such as "model.moe.experts"; its position and value
  /// are added: `recipes/a.yaml:14: model.moe.experts (63) must be divisible by parallel.ep (8); nearest: 56, 64`.
  /// Ignored when the key itself is bad (unreadable or outside its limits): that problem is listed already.
  /// Throws std::logic_error when no such key was read.
  void add(std::string_view path, std::string_view what);

  /// Like add(), for a key that must be given. Its value stands for "none", so no nearest value is suggested.
  void add_missing(std::string_view path, std::string_view what);

  /// True if all these keys or sections were read and are within their own limits; otherwise a check between keys is
  /// pointless.
  bool good(std::initializer_list<std::string_view> paths) const;

  bool any() const { return !list_.empty(); }
  /// One line each, sorted by position; a long list ends in "... and n more".
  std::string text() const;
  /// Throws RecipeError with text() and the problems.
  void throw_if_any() const;

  /// True if the key was given as key.path=value.
  bool on_command_line(std::string_view path) const;

  // The rest is for the reader, and for nearest.h.

  struct Problem {
    Position at;
    std::string path;  // of a key that is bad in itself; empty otherwise
    std::string line;
    std::string rule{};    // of add(): its path; empty otherwise
    bool missing = false;  // of add_missing()
  };
  const std::vector<Problem>& list() const { return list_; }
  /// One for each of list(), in its order.
  void replace_lines(std::vector<std::string> lines);

  struct Known {
    Position at;         // of the key, or of the section it is missing from
    std::string value;   // as YAML; empty for a section
    bool written;        // false: the default
    bool whole = false;  // its type is that of whole numbers: an integer or a number of bytes
  };
  void know(const std::string& path, Known known) { known_.insert_or_assign(path, std::move(known)); }
  const std::map<std::string, Known, std::less<>>& known() const { return known_; }
  /// `line` is the whole message without the position; `path` is the key that could not be read, if it is a known one.
  void report(const Position& at, std::string path, std::string line);

 private:
  std::vector<Problem> sorted() const;  // by position

  std::vector<Problem> list_;
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace hexad::config
