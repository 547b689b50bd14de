// Runs in child processes: also a crash or a hang is an outcome.
#pragma once

#include <functional>
#include <set>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

/// On the CPU each run has a child of its own. A card takes long to open and does not survive a fork, so on other
/// devices one child runs layouts until one of them fails, or an oracle is asked for that it has not seen computed;
/// then a new child goes on. This process must never use the device, and be alone on its thread.
class ChildRuns {
 public:
  using OracleOf = std::function<const Oracle&(const Variant&)>;

  /// All outlive it.
  ChildRuns(const Subject& subject, OracleOf oracle_of, ThreadRuns how, const Sabotage& sabotage = plain());

  Outcome run(const Variant& variant);
  /// Children that were made so far.
  int children() const { return worker_.children(); }

 private:
  static const Sabotage& plain();
  std::string answer(const std::string& request) const;

  const Subject& subject_;
  const OracleOf oracle_of_;
  const ThreadRuns how_;
  const Sabotage& sabotage_;
  std::set<const Oracle*> oracles_;  // that the child has
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
