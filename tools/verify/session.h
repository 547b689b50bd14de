// Runs all selected layouts, prints their outcomes as a table, and searches for the simplest failure.
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
  Ranks ranks;                                           // number of ranks in the search for the simplest failure
  std::function<void(const std::string&)> print;
};

/// Runs all layouts, and returns true if all agree with the oracle. Prints a line for each layout when its run ends.
/// Then prints a summary that counts mismatches, and runs without a comparison (errors) if there are any. After a
/// failure, also prints the simplest layout that still fails, its mismatch, and the command that repeats this layout.
bool run_all(const Selection& selection, const Session& session);

}  // namespace hexad::verify
