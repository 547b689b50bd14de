#include "parallel/pp/parameter_calls.h"

#include <utility>

namespace hexad::pp {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

}  // namespace

ParameterCalls::ParameterCalls(IssueLog& log, std::span<Parameter* const> used)
    : log_(log), used_(used.begin(), used.end()) {
  for (const Parameter* p : used)
    if (p->has_gradient()) with_gradient_.insert(p);
}

void ParameterCalls::add(Call call, Event event) {
  calls_.push_back(std::move(call));
  events_.push_back(std::move(event));
}

GatheredWeights ParameterCalls::use(ParameterStorage& weights, Parameter& p, Stream& stream) {
  const size_t number = calls_.size();
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  GatheredWeights gathered = weights.gather_weights(p, stream);
  if (gathered.arrived.done() && !gathered.arrived.launched()) gathered.arrived = Event::at(log_.mark_of_nothing());
  add(Use{&p, &stream}, gathered.arrived);
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
  add(EndOfUse{number});
}

// only_contribution() may request memory itself. It does so again in a repetition.
void ParameterCalls::allocate_gradient(ParameterStorage& gradients, Parameter& p) {
  const IssueLog::InnerCall inner(log_);
  if (inner.recorded()) add(Allocation{&p});
  gradients.allocate_gradient(p);
}

GradientTarget ParameterCalls::only_contribution(ParameterStorage& gradients, Parameter& p) {
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  add(OnlyContribution{&p});
  return gradients.only_contribution(p);
}

void ParameterCalls::contribute(Parameter& p, const std::function<void()>& contributed) {
  const IssueLog::InnerCall inner(log_);
  if (!inner.recorded()) repeatable_ = false;
  add(Contribution{&p, with_gradient_.contains(&p), p.has_gradient()});
  contributed();
}

void ParameterCalls::end(device::IssuePart& part) {
  ended_ = true;
  if (in_use_ > 0) repeatable_ = false;
  if (repeatable_) part.bind(events_);
  events_.clear();
  std::set<const Parameter*> reported;
  for (const Call& call : calls_)
    if (const auto* c = std::get_if<Contribution>(&call)) reported.insert(c->parameter);
  for (Parameter* p : used_)
    if (p->has_gradient() && !with_gradient_.contains(p) && !reported.contains(p)) unreported_.push_back(p);
}

void ParameterCalls::end_repetition(const Counterpart& counterpart) const {
  for (Parameter* p : unreported_)
    if (Parameter& other = counterpart ? counterpart(*p) : *p; !other.has_gradient()) other.next_write();
}

const Parameter* ParameterCalls::other_gradient(const Counterpart& counterpart) const {
  for (const Call& call : calls_)
    if (const auto* c = std::get_if<Contribution>(&call)) {
      const Parameter& p = counterpart ? counterpart(*c->parameter) : *c->parameter;
      if (p.has_gradient() != c->before) return &p;
    }
  return nullptr;
}

Event ParameterCalls::repeat(size_t number, ParameterRecorder& recorder, const std::function<void(Parameter&)>& report,
                             const Counterpart& counterpart) {
  const auto other = [&](Parameter& p) -> Parameter& { return counterpart ? counterpart(p) : p; };
  return std::visit(Overloaded{
                        [&](const Use& u) {
                          GatheredWeights gathered = recorder.gather_weights(other(*u.parameter), *u.stream);
                          const Event arrived = gathered.arrived;
                          if (gathered.stay) held_.insert_or_assign(number, std::move(gathered));
                          return arrived;
                        },
                        [&](const EndOfUse& e) {
                          held_.erase(e.use);
                          return Event();
                        },
                        [&](const Allocation& a) {
                          other(*a.parameter).gradient();
                          return Event();
                        },
                        [&](const OnlyContribution& c) {
                          recorder.only_contribution(other(*c.parameter));
                          return Event();
                        },
                        [&](const Contribution& c) {
                          Parameter& p = other(*c.parameter);
                          if (c.written && !p.has_gradient()) p.next_write();
                          report(p);
                          return Event();
                        },
                    },
                    calls_[number]);
}

void ParameterRecorder::take(const autograd::ParameterSet& parameters) {
  for (const auto& p : parameters) {
    if (p->weight_storage() == &weights_) p->gather_weights_by(*this);
    if (ParameterStorage* const storage = p->gradient_storage()) {
      gradients_[p.get()] = storage;
      p->store_gradient_in(this);
    }
  }
}

void ParameterRecorder::allocate_gradient(Parameter& p) {
  ParameterStorage& gradients = *gradients_.at(&p);
  calls_ ? calls_->allocate_gradient(gradients, p) : gradients.allocate_gradient(p);
}

GradientTarget ParameterRecorder::only_contribution(Parameter& p) {
  ParameterStorage& gradients = *gradients_.at(&p);
  return calls_ ? calls_->only_contribution(gradients, p) : gradients.only_contribution(p);
}

void ParameterRecorder::contribute(Parameter& p, const std::function<void()>& contributed) {
  calls_ ? calls_->contribute(p, contributed) : contributed();
}

GatheredWeights ParameterRecorder::gather_weights(Parameter& p, Stream& stream) {
  return calls_ ? calls_->use(weights_, p, stream) : weights_.gather_weights(p, stream);
}

}  // namespace hexad::pp
