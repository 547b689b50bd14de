// A process for oracles: the crash or hang of an oracle is reported as such.
#pragma once

#include <functional>

#include "tools/verify/isolated.h"
#include "tools/verify/run_variant.h"

namespace hexad::verify {

class OracleKeeper {
 public:
  using Run = std::function<Outcome(const Variant&)>;
  /// `run` computes the oracle of a layout, if it has not yet, and has the layout run in a child of its own. Both
  /// happen in a child of this process, which must be alone on its thread, and take at most `seconds`: more than a run
  /// may take by itself.
  OracleKeeper(Run run, double seconds);

  /// Throws Error(numeric) when the oracle cannot be computed, crashes, or takes too long.
  Outcome run(const Variant& variant);

 private:
  double seconds_;
  IsolatedWorker worker_;
};

}  // namespace hexad::verify
