// A separate process for oracles, so that a crash or hang of an oracle is reported as such.
#pragma once

#include <functional>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

class OracleKeeper {
 public:
  using Run = std::function<Outcome(const Variant&)>;
  /// Makes the keeper. `run` computes the oracle of a layout, unless it is already computed, and runs the layout in
  /// another child. Both steps happen in a child of this process and take at most `seconds`, which must be more than
  /// the time limit of one run. This process must have only this thread.
  OracleKeeper(Run run, double seconds);

  /// Runs a layout. Throws Error(numeric) if the oracle cannot be computed, crashes, or takes too long.
  Outcome run(const Variant& variant);

 private:
  double seconds_;
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
