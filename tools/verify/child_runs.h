// Runs layouts in child processes. A crash or a hang of a child is reported as the outcome of its run.
#pragma once

#include <functional>
#include <set>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

/// Runs layouts in child processes. On the CPU, each run has its own child. A GPU takes long to open, and a process
/// that has used a GPU cannot fork. Therefore, on other devices, one child runs many layouts. A new child is forked
/// after an error, and for a layout that needs an oracle that the child does not have. The parent process must never
/// use the GPU, and must have only one thread.
class ChildRuns {
 public:
  using OracleOf = std::function<const Oracle&(const Variant&)>;

  /// Keeps references to `subject` and `sabotage`, which must outlive this object.
  ChildRuns(const Subject& subject, OracleOf oracle_of, ThreadRuns how, const Sabotage& sabotage = plain());

  Outcome run(const Variant& variant);
  /// Returns the number of children made so far.
  int children() const { return worker_.children(); }

 private:
  static const Sabotage& plain();
  std::string answer(const std::string& request) const;

  const Subject& subject_;
  const OracleOf oracle_of_;
  const ThreadRuns thread_runs_;
  const Sabotage& sabotage_;
  std::set<const Oracle*> oracles_;  // oracles that the current child has
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
