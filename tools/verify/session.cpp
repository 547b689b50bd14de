#include "tools/verify/session.h"

#include <chrono>
#include <optional>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "tools/verify/outcome_text.h"

namespace hexad::verify {
namespace {

Outcome smallest_failure(const Outcome& failure, const Session& session) {
  Outcome smallest = failure;
  minimal_failure(
      failure.variant,
      [&](const Variant& v) {
        if (!session.illegal(v).empty()) return false;
        Outcome outcome = session.run(v);
        if (outcome.agrees()) return false;
        smallest = std::move(outcome);
        return true;
      },
      session.ranks);
  return smallest;
}

}  // namespace

bool run_all(const Selection& selection, const Session& session) {
  const auto start = std::chrono::steady_clock::now();
  session.print(selection.text + "\n\n" + table_head() + "\n");
  std::optional<Outcome> failure;
  int64_t errors = 0, mismatches = 0;  // numbers of runs without a comparison, and of runs with wrong results
  Comparison worst;  // comparison of the agreeing run whose difference is largest relative to its tolerance
  Compared compared;
  const auto share = [](const Comparison& c) { return c.tolerance > 0 ? c.worst.relative / c.tolerance : 0; };
  for (const Variant& v : selection.runs) {
    const Outcome outcome = session.run(v);
    session.print(table_row(outcome) + "\n");
    compared += outcome.comparison.compared;
    if (!outcome.agrees()) {
      ++(outcome.compares() ? mismatches : errors);
      if (!failure) failure = outcome;
    } else if (share(outcome.comparison) > share(worst)) {
      worst = outcome.comparison;
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const size_t runs = selection.runs.size();
  session.print(
      fmt::format("\n{} layout{} in {:.1f} s: {}{} mismatch{}; otherwise the worst difference is {:.1e}{}\n", runs,
                  runs == 1 ? "" : "s", seconds, errors > 0 ? base::counted(errors, "error") + ", " : "", mismatches,
                  mismatches == 1 ? "" : "es", worst.worst.relative,
                  worst.worst.what.empty()
                      ? ""
                      : fmt::format(", {:.0f}% of its tolerance, in {}", 100 * share(worst), worst.worst.what)));
  session.print("compared: " + to_string(compared) + "\n");
  if (!failure) return true;

  session.print("\nsearching for the smallest layout that fails ...\n");
  const Outcome smallest = smallest_failure(*failure, session);
  session.print(fmt::format("the smallest layout that fails has {} rank{}:\n{}repeat with: {}\n",
                            smallest.variant.mesh.world(), smallest.variant.mesh.world() == 1 ? "" : "s",
                            explanation(smallest), session.command(smallest.variant)));
  return false;
}

}  // namespace hexad::verify
