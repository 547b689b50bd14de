// Prediction of the next unit of parameters, from the order in which units were used before.
#pragma once

#include <cstddef>
#include <vector>

namespace hexad::dp {

/// Order in which units of parameters were used, in the current step and the step before. Steps usually use units in
/// the same order, but an evaluation or the number of micro-batches may interrupt this order.
///
/// The last two units do not determine the next unit. With recomputation, for example, a layer uses its attention and
/// then its experts in both directions. The next layer follows in forward, but this layer's attention follows in
/// backward. Therefore the class finds the longest earlier sequence of uses that is equal to the latest uses. It
/// expects the use that followed this sequence. No search is necessary as long as the expected units are used.
/// Generation and evaluation do not end steps. The older uses of a step are therefore forgotten if the step has more
/// than `most` uses.
class UnitOrder {
 public:
  static constexpr size_t none = ~size_t{0};  // no unit: between two steps, or unknown
  static constexpr size_t most = 1 << 16;     // maximum number of remembered uses of a step

  /// Appends a use of `unit` and returns the expected next unit. Returns `none` if no earlier use of `unit` is known,
  /// or if the step ended after that use.
  size_t use(size_t unit);
  /// Ends a step. Forgets the steps before it.
  void end_step();
  /// Returns the unit that was used last in this step; `none` at the beginning of a step.
  size_t current() const { return history_.back(); }

 private:
  void append(size_t unit);
  void forget(size_t count);  // forgets the oldest `count` uses
  /// Finds the longest earlier sequence of units that is equal to the end of history_, and returns the index after this
  /// sequence. Among sequences of equal length, chooses the latest. Returns `none` if the last unit occurs only once.
  size_t find_place() const;

  std::vector<size_t> history_{none};  // a `none`, the units of the step before, a `none`, and the units of this step
  size_t step_ = 0;                    // index in history_ of the `none` before this step, or 0 if it is forgotten
  size_t place_ = none;                // index in history_ of the use that is expected next; `none`: unknown
};

}  // namespace hexad::dp
