// All the runs that were selected, the table of their outcomes, and what to do about a failure.
#pragma once

#include <functional>
#include <string>

#include "tools/verify/minimal.h"
#include "tools/verify/run_variant.h"
#include "tools/verify/selection.h"

namespace hexad::verify {

struct Session {
  std::function<Outcome(const Variant&)> run;
  Illegal illegal{};
  std::function<std::string(const Variant&)> command{};  // that repeats one layout
  Ranks ranks;                                           // in the search for the smallest failure
  std::function<void(const std::string&)> print;
};

/// True if all layouts agree with the oracle. Prints a line for each as it ends, then a summary with counts and, after
/// a failure, the smallest layout that still fails, what goes wrong there and the command that repeats it.
bool run_all(const Selection& selection, const Session& session);

}  // namespace hexad::verify
