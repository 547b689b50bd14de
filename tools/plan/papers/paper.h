// Papers whose closed forms `hexad simulate --paper NAME INPUT.yaml` evaluates.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "framework/config/document.h"

namespace hexad::plan {

struct Paper {
  std::string_view name;   // name for --paper
  std::string_view title;  // description in one line
  /// Returns the results of the formulas for an input as JSON text. Most keys of values with a unit end in the unit,
  /// such as _seconds or _bytes. Throws Error(usage) that lists every problem of the input with its file:line.
  std::string (*evaluate)(const config::Document& input);
  /// Returns one line for each key of the input: name, default, unit and meaning.
  std::string (*keys)();
};

Paper monta_paper();
Paper mpmoe_paper();
Paper parm_paper();
Paper eps_paper();

inline std::array<Paper, 4> papers() { return {monta_paper(), mpmoe_paper(), parm_paper(), eps_paper()}; }

}  // namespace hexad::plan
