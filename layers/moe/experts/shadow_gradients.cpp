#include "layers/moe/experts/shadow_gradients.h"

#include <algorithm>
#include <utility>

namespace hexad::moe {

using autograd::GradientTarget;
using namespace base;
using namespace kernels;
namespace {

// Returns the shape of the gradient of `shadows` shadows.
Shape shape_of_shadows(const Parameter& p, int64_t shadows) {
  Shape shape = p.shape();
  shape[0] = shadows;
  return shape;
}

}  // namespace

ShadowGradients::ShadowGradients(const std::vector<Parameter*>& parameters, ep::HotExperts hot) : hot_(std::move(hot)) {
  for (Parameter* p : parameters)
    if (p->trainable()) entries_.push_back({.parameter = p});
}

int64_t ShadowGradients::bytes() const {
  int64_t all = 0;
  for (const Entry& e : entries_)
    all += shape_of_shadows(*e.parameter, hot_.count()).numel() * size_of(accumulator_dtype(e.parameter->dtype()));
  return all;
}

ShadowGradients::Entry& ShadowGradients::entry_of(const Parameter& p) {
  const auto at = std::ranges::find_if(entries_, [&](const Entry& e) { return e.parameter == &p; });
  require(at != entries_.end(), "[moe] ", p.name(),
          " has no gradient of shadows; expected a trainable parameter of the experts");
  if (!at->gradient.defined())
    at->gradient = Tensor::empty(shape_of_shadows(p, hot_.count()), accumulator_dtype(p.dtype()), p.device(),
                                 device::Category::communication);
  return *at;
}

GradientTarget ShadowGradients::next_target(const Parameter& p) {
  Entry& e = entry_of(p);
  return {e.gradient, std::exchange(e.written, true) ? Write::add : Write::replace};
}

Tensor ShadowGradients::to_add(const Parameter& p, Stream& stream) {
  const auto [gradient, write] = next_target(p);
  if (write == Write::replace) kernels::kernels(p.device()).pointwise.fill(stream, gradient, 0.0);
  return gradient;
}

void ShadowGradients::sum(Stream& stream, const comm::ProcessGroup& ranks) {
  std::vector<device::Event> arriving;
  for (const Entry& e : entries_)
    arriving.push_back(ranks.all_reduce(to_add(*e.parameter, stream), comm::Reduce::sum, stream));
  for (const device::Event& e : arriving) stream.wait(e);
}

void ShadowGradients::add_own(Stream& stream, int rank) const {
  for (const Entry& e : entries_) {
    const Tensor sums = e.gradient.reshape({hot_.count(), -1});
    hot_.for_each_owner([&](int owner, int64_t begin, int64_t end) {
      if (owner != rank) return;
      const Tensor own = e.parameter->gradient_to_add(stream).reshape({hot_.own(), -1});
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = hot_.list()[i] % hot_.own();
        const Tensor gradient = own.slice(0, at, at + 1);
        kernels_of(own).pointwise.add(stream, gradient, gradient, sums.slice(0, i, i + 1));
      }
    });
  }
}

}  // namespace hexad::moe
