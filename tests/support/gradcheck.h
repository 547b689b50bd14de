// Gradients against finite differences, in double.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <type_traits>
#include <vector>

#include "framework/autograd/tape.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using autograd::Tape;
using autograd::Value;

struct GradcheckOptions {
  /// For losses that are told their gradient beforehand; otherwise every output gets random gradients.
  std::optional<double> root_gradient = {};
  /// Zeros in the gradients.
  Zeros zeros = Zeros::mistrusted;
  /// True for whole layers: except on the CPU, only a few differences of each tensor are taken, since each of their
  /// many launches takes its time. The kernels are the CPU's, so that these tell whether launches are in order.
  bool of_layers = false;
};

/// Function under test: values in, values out, parameters in between.
using Function = std::function<std::vector<Value>(Tape&, const std::vector<Value>&)>;

/// Claims, for L = sum of (random direction * output) over all outputs of f(inputs):
///   - dL of every input and of every parameter used is that of central differences (elementwise, or along random
///     directions when there are many elements);
///   - a tape that forgets computes the same bits; delayed weight gradients are the same bits;
///   - weight gradients replace stale memory the first time and add the second time;
///   - gradient_ready is called once for each parameter.
/// `inputs` are f64.
void gradcheck_all(Lab& lab, const std::vector<Tensor>& inputs, const Function& f, const GradcheckOptions& options,
                   std::source_location where);

/// `f` returns a Value or several.
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
