// A separate process for oracles, in which a crash or hang of an oracle can be reported.
#pragma once

#include <functional>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

class OracleKeeper {
 public:
  using Run = std::function<Outcome(const Variant&)>;
  /// Makes the keeper, which calls `run` in a child of this process. `run` computes the oracle of a layout, unless that
  /// oracle exists, and then runs the layout in another child. A call may take `seconds`, which must be more than the
  /// time limit of one run. This process must have only one thread.
  OracleKeeper(Run run, double seconds);

  /// Runs a layout. Throws Error(numeric) if the oracle cannot be computed, crashes, or takes too long.
  Outcome run(const Variant& variant);

 private:
  double seconds_;
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
