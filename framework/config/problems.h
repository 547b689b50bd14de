// Problems of a recipe. They are collected, because a user should see all of them together.
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
  /// Adds a broken rule about a key or section that has been read, for example a rule between keys. `path` is the path
  /// of the key or section, for example "model.moe.experts". The message is the position, path and value of the key,
  /// followed by `what`:
  /// `recipes/a.yaml:14: model.moe.experts (63) must be divisible by parallel.ep (8); nearest: 56, 64`.
  /// Does nothing if report() has listed a problem with this key or with a section that contains it. Throws
  /// std::logic_error if no such key has been read.
  void add(std::string_view path, std::string_view what);

  /// Like add(), for a key that must be set but is not. No nearest value is suggested.
  void add_missing(std::string_view path, std::string_view what);

  /// True if report() has listed no problem that concerns `paths`: these keys or sections, keys below them, and
  /// sections that contain them. Call good() before a check that compares keys.
  bool good(std::initializer_list<std::string_view> paths) const;

  bool any() const { return !list_.empty(); }
  /// Returns one line for each problem, sorted by position. The text contains only the first 50 problems and ends in
  /// "... and n more" if there are more.
  std::string text() const;
  /// Throws a RecipeError with text() and the problems if there are any.
  void throw_if_any() const;

  /// True if the key has been read and was given on the command line, as key.path=value.
  bool on_command_line(std::string_view path) const;

  // The members below are for reader.cpp, for nearest.h, and for programs that examine, extend or edit the list of
  // problems.

  struct Problem {
    Position at;
    std::string path;  // the path that was passed to report(); otherwise empty
    std::string line;
    std::string rule{};    // the path that was passed to add(); otherwise empty
    bool missing = false;  // true for add_missing()
  };
  const std::vector<Problem>& list() const { return list_; }
  /// Removes all problems of list() except the first `count`.
  void keep_first(size_t count) {
    if (count < list_.size()) list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(count), list_.end());
  }
  /// Replaces the lines of list(). `lines` must have one line for each problem, in the order of list().
  void replace_lines(std::vector<std::string> lines);

  struct Known {
    Position at;         // position of the key, or of its section if the key is missing
    std::string value;   // YAML text; empty for a section or a list of sections
    bool written;        // true if the document has the key; false: the default
    bool whole = false;  // true if the type is an integer or a number of bytes
  };
  void add_known(const std::string& path, Known known) { known_.insert_or_assign(path, std::move(known)); }
  const std::map<std::string, Known, std::less<>>& known() const { return known_; }
  /// Adds a problem. `line` is the complete message without the position. `path` is the key whose value is wrong.
  /// `path` is empty if there is no such key. An example is a key in the recipe that its section does not declare.
  void report(const Position& at, std::string path, std::string line);

 private:
  std::vector<Problem> sorted() const;  // returns the problems sorted by position

  std::vector<Problem> list_;
  std::map<std::string, Known, std::less<>> known_;
};

}  // namespace hexad::config
