// Comparison of gradients with finite differences, in double.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <type_traits>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/support/names.h"

namespace hexad::tests {

struct GradcheckOptions {
  /// Value of all elements of the output gradients, for an f that is correct only with this value. Unset: random
  /// values.
  std::optional<double> root_gradient = {};
  /// Treatment of gradients that are mostly zero.
  Zeros zeros = Zeros::mistrusted;
  /// True for whole layers. On devices other than the CPU, gradcheck then computes only a few differences of each
  /// tensor. The many launches of a layer are slow there. A few differences suffice to show whether launches are in
  /// order.
  bool of_layers = false;
};

/// Function under test: maps values to values, and may use parameters.
using Function = std::function<std::vector<Value>(Tape&, const std::vector<Value>&)>;

/// Checks the gradients of f for L = sum of (output gradient * output) over all outputs of f(inputs), which are f64:
/// - the gradients of L with respect to every input and every used parameter equal central differences (elementwise, or
///   along random directions if there are many elements);
/// - a tape in Mode::forget computes the same bits, and delayed weight gradients change no bit of any gradient;
/// - weight gradients replace stale memory the first time and add the second time;
/// - gradient_ready is called once for each used parameter;
/// - no gradient of at least four elements is mostly zero (not checked if `options.zeros` expects zeros).
void gradcheck_all(Lab& lab, const std::vector<Tensor>& inputs, const Function& f, const GradcheckOptions& options,
                   std::source_location where);

/// Like gradcheck_all(), for an `f` that returns one Value or several.
template <class F>
void gradcheck(Lab& lab, const std::vector<Tensor>& inputs, F&& f, const GradcheckOptions& options = {},
               std::source_location where = std::source_location::current()) {
  gradcheck_all(
      lab, inputs,
      [&f](Tape& t, const std::vector<Value>& x) -> std::vector<Value> {
        if constexpr (std::is_same_v<std::invoke_result_t<F&, Tape&, const std::vector<Value>&>, Value>)
          return {f(t, x)};
        else
          return f(t, x);
      },
      options, where);
}

}  // namespace hexad::tests
