// All selected runs, the table of their outcomes, and the search for the smallest failure.
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
  std::function<std::string(const Variant&)> command{};  // returns the command that repeats one layout
  Ranks ranks;                                           // rule for the search for the smallest failure
  std::function<void(const std::string&)> print;
};

/// Returns true if all layouts agree with the oracle. Prints a line for each layout as it ends, then a summary with
/// counts. After a failure, also prints the smallest layout that still fails, the mismatch there, and the command that
/// repeats it.
bool run_all(const Selection& selection, const Session& session);

}  // namespace hexad::verify
