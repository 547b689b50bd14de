// An error about a recipe. It contains the problems as data, for other programs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::config {

struct RecipeProblem {
  std::string source;   // path of a file, or a text like "command line: a.b=1"
  int line = 0;         // line number from 1; 0: the whole source, or unknown
  std::string key;      // key, such as "model.moe.experts"; the first word of the message if the problem names no key
  std::string message;  // text without the position
};

/// An Error(usage) whose message lists up to 50 of the problems, sorted by position.
class RecipeError : public base::Error {
 public:
  RecipeError(const std::string& text, std::vector<RecipeProblem> problems)
      : Error(base::ExitCode::usage, text), problems_(std::move(problems)) {}
  const std::vector<RecipeProblem>& problems() const { return problems_; }

 private:
  std::vector<RecipeProblem> problems_;
};

}  // namespace hexad::config
