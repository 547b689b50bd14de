// Helper for update rules that are functions of one element. Such rules run on every device.
#pragma once

#include <array>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/kernel_table.h"
#include "framework/tensor/host_read.h"
#include "optim/update_rule.h"

namespace hexad::optim {

using base::bf16;
using base::require;
using base::with_dtype;
using tensor::copy_to_host;
using tensor::upload_from;
namespace detail {

/// Throws Error(usage) if the states or main weights of `s` are in bf16, which elementwise() does not support. Throws
/// std::logic_error if `s` has fewer than `states` states.
inline void require_supported(const Slice& s, size_t states) {
  require(s.states.size() >= states, "[optimizer] elementwise() updates ", states, " states, but a slice has ",
          s.states.size(), "; expected at least ", states, " (UpdateRule::states_of)");
  for (const Tensor& state : s.states)
    if (state.dtype() == base::Dtype::bf16)
      base::fail(
          base::ExitCode::usage,
          "optim.moment_dtype (bf16) must be f32 for a rule that calls elementwise(), which does not read states "
          "in bf16; remove reads_moment_dtype from the registration of the rule");
  if (s.main.dtype() == base::Dtype::bf16)
    base::fail(base::ExitCode::usage,
               "optim.main_weights (rest) must be f32 for a rule that calls elementwise(), which does not read rests; "
               "remove marked_state from the registration of the rule");
}

/// Updates a slice in host memory. Skips the update if the factor of the gradients is negative.
template <size_t States, class F>
void update_on_host(const Slice& s, const Tensor& factor_of_gradients, const F& f) {
  const double factor = factor_of_gradients.defined() ? *factor_of_gradients.data<double>() : 1;
  if (factor < 0) return;
  with_dtype<float, double>("optimizer", s.main.dtype(), [&]<class A>() {
    with_dtype<A, bf16>("optimizer", s.gradient.dtype(), [&]<class G>() {
      A* weights = s.main.data<A>();
      const G* gradients = s.gradient.data<G>();
      std::array<A*, States> states;
      for (size_t i = 0; i < States; ++i) states[i] = s.states[i].template data<A>();
      kernels::cpu::parallel_for(s.main.numel(), 4096, [&](int64_t begin, int64_t end) {
        std::array<double, States> here;
        for (int64_t e = begin; e < end; ++e) {
          auto weight = static_cast<double>(weights[e]);
          for (size_t i = 0; i < States; ++i) here[i] = static_cast<double>(states[i][e]);
          f(weight, factor * static_cast<double>(gradients[e]), here, s.weight_decay);
          weights[e] = static_cast<A>(weight);
          for (size_t i = 0; i < States; ++i) states[i][e] = static_cast<A>(here[i]);
        }
      });
    });
  });
}

}  // namespace detail

/// Calls f(weight, gradient, states, weight_decay) for each element. Does nothing if step.factor is negative.
/// `gradient` is already multiplied by step.factor. The arguments have the types double&, double, std::array<double,
/// States>& and double. Results are rounded to the dtype of Slice::main. On a device, this function is slow, because
/// the memory is copied to the host and back. A rule that must be fast on a device should launch its own kernels.
/// Throws Error(usage) if states or main weights are in bf16, and std::logic_error if a slice has fewer than `States`
/// states.
template <size_t States, class F>
void elementwise(Stream& stream, std::span<const Slice> slices, const UpdateStep& step, const F& f) {
  for (const Slice& s : slices) detail::require_supported(s, States);
  for (const Slice& s : slices) {
    if (stream.on_device()) {
      const auto host = [&](const Tensor& t) { return copy_to_host("optimizer", t, stream); };
      Slice here{host(s.main), {}, {}, host(s.gradient), s.weight_decay};
      for (const Tensor& t : s.states) here.states.push_back(host(t));
      detail::update_on_host<States>(here, step.factor.defined() ? host(step.factor) : Tensor{}, f);
      upload_from(here.main, s.main);
      for (size_t i = 0; i < States; ++i) upload_from(here.states[i], s.states[i]);
    } else {
      stream.run([s, factor = step.factor, f] { detail::update_on_host<States>(s, factor, f); });
    }
    if (s.weights.storage() != s.main.storage())
      kernels::kernels(s.main.device()).pointwise.copy(stream, s.weights, s.main);
  }
}

}  // namespace hexad::optim
