// Compares the tensors and numbers of a run with the oracle. Reports the size and position of each difference.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/telemetry/metrics.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/model/train_step.h"
#include "tools/verify/tensor_pieces.h"

namespace hexad::verify {

/// A whole tensor of the oracle in host memory, in f64.
struct Whole {
  Shape shape;
  std::vector<double> values;
  /// Unit of differences: the root mean square of the values, but at least a thousandth of `typical`. Without this
  /// minimum, the unit of a gradient that is zero except for rounding would be a rounding error.
  double unit = 0;
  double typical = 0;  // root mean square over all tensors of this kind
  int64_t place = 0;   // index of the tensor's parameter in the order in which forward uses parameters
};
using WholeMap = std::map<std::string, Whole>;
/// Converts tensors. `order` has the names of parameters in the order in which forward uses them. The state STATE of
/// the parameter NAME is called NAME/STATE.
WholeMap whole_tensors(const TensorMap& tensors, const std::vector<std::string>& order = {});

/// State of the oracle after a step. Step 0 is the state before the first step.
struct Expected {
  train::StepResult result;
  WholeMap gradients, weights, states;
};

/// Measure of the differences within a tensor.
enum class Measure : uint8_t {
  largest,          // largest difference of an element
  root_mean_square  // root mean square of all differences; used if rounding may change single elements strongly
};

/// Difference in one quantity of one step. `relative` depends on the quantity:
/// - element: the difference divided by the larger of the expected value and the tensor's unit
/// - tensor, under Measure::root_mean_square: the root mean square of its differences, in units
/// - number: the difference divided by the expected number; eight times this under Measure::root_mean_square
///
/// `relative` is infinite in these cases:
/// - Counts, texts or shapes differ.
/// - Only one value is not finite, or only the expected number is zero.
/// - The oracle has no such tensor, or the ranks do not own each of its elements exactly once.
struct Finding {
  int64_t step = 0;
  std::string what;  // such as "loss" or "gradient layers.0.moe.router.weight"
  double relative = 0;
  std::string detail;  // such as "at [3, 4]: expected 0.5, got 0.25"
  int64_t place = 0;   // see Whole::place
};

/// Extent of a comparison. A weight, its gradient and its states are separate tensors. Each tensor counts once per
/// step, even if several ranks hold it.
struct Compared {
  int64_t steps = 0, tensors = 0, elements = 0;

  /// True if anything was compared. A run in which nothing was compared counts as a failure.
  bool something() const { return steps > 0 && tensors > 0 && elements > 0; }
  Compared& operator+=(const Compared& more);
};
/// Returns a text like "2 steps, 310 tensors, 1234 elements".
std::string to_string(const Compared& compared);

/// Result of the comparison of one run.
struct Comparison {
  Finding worst;
  std::vector<Finding> mismatches;  // differences beyond the tolerance, causes before their effects
  double tolerance = 0;
  Compared compared;
};

/// Collects one rank's differences. Each rank compares all tensors that it holds, including replicas.
class Comparer {
 public:
  /// Makes a comparer for which the unit of a tensor is at least `least_unit` times Whole::typical.
  explicit Comparer(double tolerance, Measure measure = Measure::largest, double least_unit = 0)
      : tolerance_(tolerance), measure_(measure), least_unit_(least_unit) {}

  void result(int64_t step, const train::StepResult& expected, const train::StepResult& actual);
  /// Compares the metrics that `hexad train` reports for a step. If the step is `ruined` (not finite), compares only
  /// the learning rate.
  void reported(const train::StepResult& expected, const telemetry::StepMetrics& actual, bool ruined);
  /// Compares the pieces that this rank holds. `kind` is "gradient", "weight", ...; findings are reported as "KIND
  /// NAME".
  void tensors(int64_t step, std::string_view kind, const WholeMap& expected, const std::vector<Piece>& held);
  void evaluation(int64_t step, const train::Evaluation& expected, const train::Evaluation& actual);
  void generated(int64_t step, const std::vector<int32_t>& expected, const std::vector<int32_t>& actual);
  /// Merges the differences of all ranks and returns the same result on each rank. Also reports each tensor with an
  /// element that no rank owns or that is owned twice. Collective.
  Comparison merged(const comm::ProcessGroup& group, Device device) const;

 private:
  void number(int64_t step, const std::string& what, double expected, double actual);
  void exact(int64_t step, const std::string& what, const std::string& expected, const std::string& actual);
  void add(Finding finding);

  struct Run {
    int64_t begin, count;
  };
  // Statistics of one tensor, over the elements that this rank holds. A rank may hold none.
  struct Tally {
    int64_t step;
    std::string what;
    int64_t place, expected, held = 0;
    double squares = 0;        // sum of the squared differences, in the tensor's units, over the elements held
    std::vector<Run> owned{};  // elements that this rank owns
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
