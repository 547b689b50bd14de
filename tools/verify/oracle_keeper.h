// Computes oracles in a separate process, so that a crash or hang of an oracle can be reported.
#pragma once

#include <functional>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

class OracleKeeper {
 public:
  using Run = std::function<Outcome(const Variant&)>;
  /// Makes a keeper that calls `run` in a child of this process. `run` computes the oracle of a layout if this oracle
  /// does not exist yet, and then runs the layout in a grandchild. `seconds` is the time limit of a call, and must be
  /// more than the time limit of one run. This process must have only one thread.
  OracleKeeper(Run run, double seconds);

  /// Runs a layout. If `run` throws an exception, throws an Error with its message and exit code (base::failure_of()).
  /// Throws Error(numeric) if the oracle crashes or takes too long.
  Outcome run(const Variant& variant);

 private:
  double seconds_;
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
