// An error about a recipe, with its problems in parts for programs that read it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::config {

struct RecipeProblem {
  std::string source;   // a file, or "command line: a.b=1"
  int line = 0;         // from 1; 0: of the source as a whole
  std::string key;      // "model.moe.experts"; empty: of none
  std::string message;  // without the position
};

/// The Error(usage) whose message lists the problems; in the order of their positions.
class RecipeError : public base::Error {
 public:
  RecipeError(const std::string& text, std::vector<RecipeProblem> problems)
      : Error(base::ExitCode::usage, text), problems_(std::move(problems)) {}
  const std::vector<RecipeProblem>& problems() const { return problems_; }

 private:
  std::vector<RecipeProblem> problems_;
};

}  // namespace hexad::config
