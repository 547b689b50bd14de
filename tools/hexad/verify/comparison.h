// A run on some layout beside the oracle: what differs, by how much, where.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/hexad/train_step.h"
#include "tools/hexad/verify/pieces.h"

namespace hexad::verify {

/// A tensor of the oracle in plain memory, f64.
struct Whole {
  Shape shape;
  std::vector<double> values;
  /// What differences are measured in: the root mean square of the values, or a thousandth of that of all tensors of
  /// this kind where it is larger (a gradient that is zero but for rounding has no scale of its own).
  double unit = 0;
};
using WholeMap = std::map<std::string, Whole>;
WholeMap wholes_of(const TensorMap& tensors);

/// What the oracle has after a step; step 0: before the first.
struct Expected {
  app::StepResult result;
  WholeMap gradients, weights, states;
};

/// One quantity of one step. `relative` is the largest difference in units (of a number: of the number itself);
/// infinite for counts that differ, for NaN, for what nobody holds.
struct Finding {
  int64_t step = 0;
  std::string what;  // "loss", "gradient layers.0.moe.router.weight"
  double relative = 0;
  std::string detail;  // "at [3, 4]: expected 0.5, got 0.25"
};

/// Of one run.
struct Comparison {
  Finding worst;
  std::vector<Finding> mismatches;  // beyond tolerance, in the order in which one causes the next
};

/// Collects one rank's differences. Tensors are compared where they lie, replicas included.
class Comparer {
 public:
  explicit Comparer(double tolerance) : tolerance_(tolerance) {}

  void result(int64_t step, const app::StepResult& expected, const app::StepResult& actual);
  /// `kind` is "gradient", "weight", ...: tensors are reported as "KIND NAME".
  void tensors(int64_t step, std::string_view kind, const WholeMap& expected, const std::vector<Piece>& held);
  /// Collective: the same on all ranks. Reports tensors that were not held as a whole.
  Comparison merged(const comm::ProcessGroup& group, Device device) const;

 private:
  void number(int64_t step, const std::string& what, double expected, double actual);
  void exact(int64_t step, const std::string& what, const std::string& expected, const std::string& actual);
  void add(Finding finding);

  struct Owned {
    int64_t step;
    std::string what;
    int64_t expected, owned;
  };
  double tolerance_;
  Finding worst_;
  std::vector<Finding> mismatches_;
  std::vector<Owned> owned_;
};

}  // namespace hexad::verify
