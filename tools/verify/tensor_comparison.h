// A run on some layout beside the oracle: what differs, by how much, where.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/train_step.h"
#include "tools/verify/tensor_pieces.h"

namespace hexad::verify {

/// A tensor of the oracle in plain memory, f64.
struct Whole {
  Shape shape;
  std::vector<double> values;
  /// Unit of differences: the root mean square of the values, or a thousandth of that of all tensors of this kind if
  /// that is larger (a gradient that is zero but for rounding has no scale of its own).
  double unit = 0;
  double typical = 0;  // the root mean square of all tensors of this kind
  int64_t place = 0;   // of its parameter, in the order in which forward uses them
};
using WholeMap = std::map<std::string, Whole>;
/// `order`: names of parameters, as forward uses them; states are called NAME/STATE.
WholeMap whole_tensors(const TensorMap& tensors, const std::vector<std::string>& order = {});

/// State of the oracle after a step; step 0: before the first.
struct Expected {
  train::StepResult result;
  WholeMap gradients, weights, states;
};

/// Measure of a tensor's differences.
enum class Measure : uint8_t {
  largest,          // of all elements
  root_mean_square  // where rounding alone moves single elements far
};

/// One quantity of one step. `relative` is the difference in units (of a number: of the number itself); infinite for
/// counts that differ, for a NaN on one side, for what nobody holds.
struct Finding {
  int64_t step = 0;
  std::string what;  // "loss", "gradient layers.0.moe.router.weight"
  double relative = 0;
  std::string detail;  // "at [3, 4]: expected 0.5, got 0.25"
  int64_t place = 0;   // see Whole
};

/// Extent of a comparison; each tensor counts once a step however many ranks hold it.
struct Compared {
  int64_t steps = 0, tensors = 0, elements = 0;

  /// True if anything was compared: only then can a run agree.
  bool something() const { return steps > 0 && tensors > 0 && elements > 0; }
  Compared& operator+=(const Compared& more);
};
/// "2 steps, 310 tensors, 1,234 elements"
std::string to_string(const Compared& compared);

/// Result of comparing one run.
struct Comparison {
  Finding worst;
  std::vector<Finding> mismatches;  // beyond tolerance, in the order in which one causes the next
  double tolerance = 0;
  Compared compared;
};

/// Collects one rank's differences. Tensors are compared where they lie, replicas included.
class Comparer {
 public:
  /// `least_unit`: a tensor's unit is at least this share of its kind's typical size.
  explicit Comparer(double tolerance, Measure measure = Measure::largest, double least_unit = 0)
      : tolerance_(tolerance), measure_(measure), least_unit_(least_unit) {}

  void result(int64_t step, const train::StepResult& expected, const train::StepResult& actual);
  /// Compares what `hexad train` reports of a step; of one that is `ruined`, the learning rate alone.
  void reported(const train::StepResult& expected, const telemetry::StepMetrics& actual, bool ruined);
  /// `kind` is "gradient", "weight", ...: tensors are reported as "KIND NAME".
  void tensors(int64_t step, std::string_view kind, const WholeMap& expected, const std::vector<Piece>& held);
  void evaluation(int64_t step, const train::Evaluation& expected, const train::Evaluation& actual);
  void generated(int64_t step, const std::vector<int32_t>& expected, const std::vector<int32_t>& actual);
  /// Collective: the same on all ranks. Reports tensors that were not held as a whole.
  Comparison merged(const comm::ProcessGroup& group, Device device) const;

 private:
  void number(int64_t step, const std::string& what, double expected, double actual);
  void exact(int64_t step, const std::string& what, const std::string& expected, const std::string& actual);
  void add(Finding finding);

  // Sums over a tensor, of which this rank may hold nothing.
  struct Tally {
    int64_t step;
    std::string what;
    int64_t place, expected, owned = 0, held = 0;
    double squares = 0;  // of differences in units, of what is held
  };
  double tolerance_;
  Measure measure_;
  double least_unit_;
  int64_t steps_ = 0;
  Finding worst_;
  std::vector<Finding> mismatches_;
  std::vector<Tally> tallies_;
};

}  // namespace hexad::verify
