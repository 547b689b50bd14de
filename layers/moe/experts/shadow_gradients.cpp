#include "layers/moe/experts/shadow_gradients.h"

#include <algorithm>
#include <utility>

#include "parallel/ep/offsets.h"

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

// Range [begin, end) of elements.
struct ElementRange {
  int64_t begin, end;
  int64_t shared_with(const ElementRange& other) const {
    return std::max<int64_t>(0, std::min(end, other.end) - std::max(begin, other.begin));
  }
};

int64_t gradient_bytes(int64_t elements, const Parameter& p) {
  return elements * size_of(accumulator_dtype(p.dtype()));
}

}  // namespace

ShadowGradients::ShadowGradients(const std::vector<Parameter*>& parameters, ep::HotExperts hot) : hot_(std::move(hot)) {
  for (Parameter* p : parameters)
    if (p->trainable()) entries_.push_back({.parameter = p});
}

// Returns the number of elements in one expert's gradient.
int64_t ShadowGradients::elements_of_expert(const Entry& e) const {
  return e.parameter->shape().numel() / e.parameter->shape()[0];
}

// Returns the number of elements in each rank's part of Entry::padded.
int64_t ShadowGradients::part_size(const Entry& e) const {
  return (hot_.count() * elements_of_expert(e) + hot_.ranks() - 1) / hot_.ranks();
}

// Returns the numbers of sums that `rank` exchanges with each rank in send_to_owners(). The gradients of the experts of
// one rank are contiguous. They precede the gradients of the experts of higher ranks.
comm::Splits ShadowGradients::splits_to_owners(const Entry& e, int rank) const {
  const int64_t each = elements_of_expert(e), all = hot_.count() * each, size = part_size(e);
  const auto part_of = [&](int64_t r) { return ElementRange{std::min(r * size, all), std::min((r + 1) * size, all)}; };
  comm::Splits splits{.send = std::vector<int64_t>(hot_.ranks()), .receive = std::vector<int64_t>(hot_.ranks())};
  hot_.for_each_owner([&](int owner, int64_t begin, int64_t end) {
    const ElementRange owned{begin * each, end * each};
    splits.send[owner] = part_of(rank).shared_with(owned);
    for (int64_t r = 0; owner == rank && r < hot_.ranks(); ++r) splits.receive[r] = part_of(r).shared_with(owned);
  });
  return splits;
}

int64_t ShadowGradients::part_bytes() const {
  int64_t all = 0;
  for (const Entry& e : entries_) all += gradient_bytes(part_size(e), *e.parameter);
  return all;
}

ShadowGradients::Moved ShadowGradients::moved(int rank) const {
  Moved all;
  for (const Entry& e : entries_) {
    const comm::Splits splits = splits_to_owners(e, rank);
    const int64_t kept = splits.send[rank], received = ep::sum_of(splits.receive);
    all.sent += gradient_bytes(ep::sum_of(splits.send) - kept, *e.parameter);
    all.received += gradient_bytes(received - kept, *e.parameter);
    all.own += gradient_bytes(received, *e.parameter);
  }
  return all;
}

ShadowGradients::Entry& ShadowGradients::entry_of(const Parameter& p) {
  const auto at = std::ranges::find_if(entries_, [&](const Entry& e) { return e.parameter == &p; });
  require(at != entries_.end(), "[moe] ", p.name(),
          " has no gradient of shadows; expected a trainable parameter of the experts");
  if (!at->gradient.defined()) {
    const Shape shape = shape_of_shadows(p, hot_.count());
    at->padded = Tensor::empty({hot_.ranks() * part_size(*at)}, accumulator_dtype(p.dtype()), p.device(),
                               device::Category::communication);
    at->gradient = at->padded.slice(0, 0, shape.numel()).reshape(shape);
  }
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
  for (Entry& e : entries_) {
    const int64_t elements = to_add(*e.parameter, stream).numel(), padded = e.padded.dim(0);
    if (elements < padded) kernels_of(e.padded).pointwise.fill(stream, e.padded.slice(0, elements, padded), 0.0);
    e.part = Tensor::empty({part_size(e)}, e.padded.dtype(), e.padded.device(), device::Category::communication);
    arriving.push_back(ranks.reduce_scatter(e.part, e.padded, stream));
    e.gradient = {}, e.padded = {};
  }
  for (const device::Event& e : arriving) stream.wait(e);
}

void ShadowGradients::send_to_owners(Stream& stream, const comm::ProcessGroup& ranks) {
  std::vector<device::Event> arriving;
  for (Entry& e : entries_) {
    const comm::Splits splits = splits_to_owners(e, ranks.rank());
    e.own =
        Tensor::empty({ep::sum_of(splits.receive)}, e.part.dtype(), e.part.device(), device::Category::communication);
    const Tensor part = std::exchange(e.part, {});
    arriving.push_back(ranks.all_to_all(e.own, part.slice(0, 0, ep::sum_of(splits.send)), splits, stream));
  }
  for (const device::Event& e : arriving) stream.wait(e);
}

void ShadowGradients::add_own(Stream& stream, int rank) const {
  for (const Entry& e : entries_) {
    hot_.for_each_owner([&](int owner, int64_t begin, int64_t end) {
      if (owner != rank) return;
      const Tensor sums = e.own.reshape({end - begin, -1}),
                   own = e.parameter->gradient_to_add(stream).reshape({hot_.own(), -1});
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = hot_.list()[i] % hot_.own();
        const Tensor gradient = own.slice(0, at, at + 1);
        kernels_of(own).pointwise.add(stream, gradient, gradient, sums.slice(0, i - begin, i - begin + 1));
      }
    });
  }
}

}  // namespace hexad::moe
