// Helpers for tests of tensor-parallel ranks. Every rank draws the same numbers, so each rank can also compute the
// result of a single rank for comparison.
#pragma once

#include "framework/autograd/ops/ops.h"
#include "parallel/comm/self_group.h"
#include "parallel/comm/thread_group.h"
#include "parallel/tp/tensor_parallel.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"
#include "tests/support/names.h"

namespace hexad::tests {

using base::cat;

using comm::ProcessGroup;
using tp::TensorParallel;

class TpLab : public Lab {
 public:
  explicit TpLab(const ProcessGroup& ranks, uint64_t seed = default_seed) : Lab(seed), group(ranks) {}

  /// Returns this rank's piece of `whole` along `dim`, as a separate parameter.
  Parameter& piece(Parameter& whole, int dim) {
    return copy(whole, {.shards = {{Axis::tp, dim, group.size(), group.rank()}}});
  }
  /// Returns a copy of `whole` with a separate gradient.
  Parameter& replica(Parameter& whole) { return copy(whole, {}); }

  /// Returns this rank's part of a tensor with the global shape of `p`.
  static Tensor part_of(const Tensor& whole, const Parameter& p) {
    Tensor part = whole;
    const auto [begin, size] = p.region();
    for (int d = 0; d < whole.rank(); ++d) part = part.slice(d, begin[d], begin[d] + size[d]);
    return part;
  }
  /// Returns this rank's share of the rows of `x`.
  Tensor own_rows(const Tensor& x) const {
    const int64_t share = x.dim(0) / group.size();
    return x.slice(0, group.rank() * share, (group.rank() + 1) * share);
  }

  const ProcessGroup& group;

 private:
  Parameter& copy(Parameter& whole, const Placement& placement) {
    Parameter& p = parameters.add({.name = cat(whole.name(), ".copy", parameters.size()),
                                   .global_shape = whole.global_shape(),
                                   .placement = placement,
                                   .dtype = whole.spec().dtype,
                                   .init = {}});
    kernels::kernels(context).pointwise.copy(stream(), p.local(), part_of(whole.local(), p));
    return p;
  }
};

/// Runs `f(lab)` on `ranks` ranks, which are threads. Operations end late, after random delays. This exposes reads that
/// are too early, and code that relies on an order between channels.
template <class F>
void on_late_ranks(int ranks, F&& f) {
  const auto body = [&](const ProcessGroup& group) {
    TpLab lab(group);
    f(lab);
  };
  comm::with_ranks(ranks, body, {.jitter = {.seed = 3, .max_delay = std::chrono::microseconds(200)}});
}

/// Tape that keeps all saved tensors, with a function that runs backward.
struct Trial {
  explicit Trial(Lab& l, Tape::Mode mode = Tape::Mode::record) : lab(l), tape(l.stream(), *policy, mode) {}

  /// Returns the gradient of `leaf` for the given gradients of the roots, or an undefined tensor if `leaf` is constant.
  Tensor gradient_of(const Value& leaf, const std::vector<Replay::Root>& roots,
                     Replay::Weights weights = Replay::Weights::at_once) {
    Replay replay(tape, roots, weights);
    replay.run();
    return leaf.wants_gradient() ? replay.take_gradient(leaf) : Tensor{};
  }

  Lab& lab;
  std::unique_ptr<SavePolicy> policy = keep_policy();
  Tape tape;
};

/// Returns the text of the std::logic_error that the call throws, or "no error".
template <class F>
std::string error_of(F&& call) {
  try {
    call();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace hexad::tests
