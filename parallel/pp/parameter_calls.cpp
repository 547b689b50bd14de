#include "parallel/pp/parameter_calls.h"

#include <algorithm>
#include <utility>

namespace hexad::pp {

namespace {

Parameter& counterpart_of(Parameter& p, const ParameterCalls::Counterpart& counterpart) {
  return counterpart ? counterpart(p) : p;
}

}  // namespace

ParameterCalls::ParameterCalls(IssueLog& log, std::span<Parameter* const> used)
    : log_(log), used_(used.begin(), used.end()) {
  for (const Parameter* p : used)
    if (p->has_gradient()) with_gradient_.insert(p);
}

void ParameterCalls::add(std::function<Event(const Again&)> again, Event event) {
  calls_.push_back(std::move(again));
  events_.push_back(std::move(event));
}

GatheredWeights ParameterCalls::use(WeightStorage& weights, Parameter& p, Stream& stream) {
  const size_t number = calls_.size();
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  GatheredWeights gathered = weights.gather_weights(p, stream);
  if (gathered.arrived.done() && !gathered.arrived.launched()) gathered.arrived = Event::at(log_.mark_of_nothing());
  add(
      [this, number, &p, &stream](const Again& again) {
        GatheredWeights held = again.recorder.gather_weights(counterpart_of(p, again.counterpart), stream);
        Event arrived = held.arrived;
        if (held.stay) held_.insert_or_assign(number, std::move(held));
        return arrived;
      },
      gathered.arrived);
  if (!gathered.stay) return gathered;
  ++in_use_;
  const void* const address = gathered.stay.get();
  gathered.stay = std::shared_ptr<const void>(
      address, [this, number, stay = std::exchange(gathered.stay, nullptr)](const void*) mutable {
        stay.reset();
        end_use(number);
      });
  return gathered;
}

void ParameterCalls::end_use(size_t number) {
  if (ended_) return;  // end() has found that the part cannot be repeated
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  --in_use_;
  add([this, number](const Again&) {
    held_.erase(number);
    return Event();
  });
}

// Records the call if only_contribution() does not make it. Otherwise, a repetition of only_contribution() requests the
// memory.
void ParameterCalls::allocate_gradient(GradientStorage& gradients, Parameter& p) {
  const IssueLog::InnerCall inner(log_);
  if (inner.recorded())
    add([&p](const Again& again) {
      counterpart_of(p, again.counterpart).gradient();
      return Event();
    });
  gradients.allocate_gradient(p);
}

GradientTarget ParameterCalls::only_contribution(GradientStorage& gradients, Parameter& p) {
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  add([&p](const Again& again) {
    again.recorder.only_contribution(counterpart_of(p, again.counterpart));
    return Event();
  });
  return gradients.only_contribution(p);
}

void ParameterCalls::contribute(Parameter& p, const std::function<void()>& contributed) {
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  contributions_.push_back({&p, with_gradient_.contains(&p)});
  add([&p, written = p.has_gradient()](const Again& again) {
    Parameter& other = counterpart_of(p, again.counterpart);
    if (written && !other.has_gradient()) other.next_write();
    again.report(other);
    return Event();
  });
  contributed();
}

void ParameterCalls::end(device::IssuePart& part) {
  ended_ = true;
  if (in_use_ > 0) repeatable_ = false;
  if (repeatable_) part.bind(events_);
  events_.clear();
  for (Parameter* p : used_)
    if (p->has_gradient() && !with_gradient_.contains(p) &&
        std::ranges::find(contributions_, p, &Contribution::parameter) == contributions_.end())
      unreported_.push_back(p);
}

void ParameterCalls::end_repetition(const Counterpart& counterpart) const {
  for (Parameter* p : unreported_)
    if (Parameter& other = counterpart_of(*p, counterpart); !other.has_gradient()) other.next_write();
}

const Parameter* ParameterCalls::other_gradient(const Counterpart& counterpart) const {
  for (const Contribution& c : contributions_)
    if (const Parameter& p = counterpart_of(*c.parameter, counterpart); p.has_gradient() != c.before) return &p;
  return nullptr;
}

void ParameterRecorder::take(const autograd::ParameterSet& parameters) {
  for (const auto& p : parameters) {
    parameters_.push_back(p.get());
    if (p->weight_storage() == &weights_) p->gather_weights_by(*this);
    if (GradientStorage* const storage = p->gradient_storage()) {
      gradients_[p.get()] = storage;
      p->store_gradient_in(this);
    }
  }
}

void ParameterRecorder::allocate_gradient(Parameter& p) {
  GradientStorage& gradients = *gradients_.at(&p);
  calls_ ? calls_->allocate_gradient(gradients, p) : gradients.allocate_gradient(p);
}

GradientTarget ParameterRecorder::only_contribution(Parameter& p) {
  GradientStorage& gradients = *gradients_.at(&p);
  return calls_ ? calls_->only_contribution(gradients, p) : gradients.only_contribution(p);
}

void ParameterRecorder::contribute(Parameter& p, const std::function<void()>& contributed) {
  calls_ ? calls_->contribute(p, contributed) : contributed();
}

GatheredWeights ParameterRecorder::gather_weights(Parameter& p, Stream& stream) {
  return calls_ ? calls_->use(weights_, p, stream) : weights_.gather_weights(p, stream);
}

}  // namespace hexad::pp
