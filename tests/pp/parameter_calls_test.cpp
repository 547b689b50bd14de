// Calls to the storage of parameters. The calls are recorded with a part of a log and repeated with this part.
#include "parallel/pp/parameter_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "framework/device/meta/meta_stream.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace pp;
using autograd::HeldWeight;

namespace {

// Binds weights to its own memory, and counts gathers. `holders` expires when the last use ends.
class Gatherer final : public WeightStorage {
 public:
  GatheredWeights gather_weights(Parameter& p, Stream&) override {
    ++gathers;
    if (!memory.defined()) memory = tensor::Tensor::empty(p.shape(), p.dtype(), p.device());
    p.bind_weights(memory);
    auto stay = holders.lock();
    if (!stay) holders = stay = std::make_shared<char>();
    return {stay, {}};
  }
  bool weights_are_resident(const Parameter&) const override { return false; }

  int gathers = 0;
  tensor::Tensor memory;
  std::weak_ptr<const void> holders;
};

// A parameter whose weights `gatherer` gathers, and a part of a log that is being recorded.
class Recording {
 public:
  Recording() {
    parameter.gather_weights_by(recorder);
    recorder.open(calls);
    log.start_part(part);
  }
  void end() {
    log.end_part();
    recorder.close();
    calls.end(part);
  }
  int64_t program_calls() const {
    return std::ranges::count_if(
        part.calls, [](const auto& call) { return std::holds_alternative<device::IssuePart::ProgramCall>(call); });
  }
  Stream& stream() { return lab.stream(); }

  Lab lab;
  IssueLog log{IssueLog::Host::launches};
  device::IssuePart part;
  Parameter parameter{{.name = "w", .global_shape = {2, 3}, .placement = {}, .init = {}}, lab.context};
  Parameter* used = &parameter;
  ParameterCalls calls{log, std::span<Parameter* const>(&used, 1)};
  Gatherer gatherer;
  ParameterRecorder recorder{gatherer};
};

void report_nothing(Parameter&) {}

TEST(ParameterCalls, RepeatUsesAndTheirEnds) {
  Recording r;
  {
    const HeldWeight held = r.parameter.hold(r.stream());
    r.parameter.use(r.stream());
    EXPECT_FALSE(r.gatherer.holders.expired());
  }
  EXPECT_TRUE(r.gatherer.holders.expired());
  r.end();
  EXPECT_TRUE(r.calls.repeatable());
  ASSERT_EQ(r.program_calls(), 4) << "two uses and their ends";

  const int before = r.gatherer.gathers;
  r.calls.repeat(0, r.recorder, report_nothing), r.calls.repeat(1, r.recorder, report_nothing),
      r.calls.repeat(2, r.recorder, report_nothing);
  EXPECT_EQ(r.gatherer.gathers, before + 2);
  EXPECT_FALSE(r.gatherer.holders.expired()) << "the first use has not ended";
  r.calls.repeat(3, r.recorder, report_nothing);
  EXPECT_TRUE(r.gatherer.holders.expired());
}

TEST(ParameterCalls, CannotBeRepeatedIfAUseOutlivesThePart) {
  Recording r;
  const HeldWeight held = r.parameter.hold(r.stream());
  r.end();
  EXPECT_FALSE(r.calls.repeatable());
}

TEST(ParameterCalls, ContributeToTheGradientBeforeItIsReported) {
  Recording r;
  r.parameter.next_write();
  std::vector<std::string> reported;
  r.recorder.contribute(r.parameter, [&] { reported.push_back("recorded"); });
  r.end();
  EXPECT_EQ(reported, std::vector<std::string>{"recorded"});
  EXPECT_TRUE(r.calls.repeatable());
  EXPECT_EQ(r.program_calls(), 1);

  EXPECT_EQ(r.calls.other_gradient(), &r.parameter) << "the gradient already has a contribution";
  r.parameter.release_gradient();
  EXPECT_EQ(r.calls.other_gradient(), nullptr);
  bool written = false;
  r.calls.repeat(0, r.recorder, [&](Parameter& p) { written = p.has_gradient(); });
  EXPECT_TRUE(written);
}

// Storage that counts the requests for memory of a gradient's only contribution.
class Gradients final : public GradientStorage {
 public:
  void allocate_gradient(Parameter& p) override {
    p.bind_gradient(tensor::Tensor::empty(p.shape(), base::accumulator_dtype(p.dtype()), p.device()));
  }
  autograd::GradientTarget only_contribution(Parameter& p) override {
    ++requests;
    return {p.gradient(), p.next_write()};
  }

  int requests = 0;
};

TEST(ParameterCalls, RepeatRequestsForMemoryOfGradients) {
  Recording r;
  Gradients gradients;
  Parameter& p = r.lab.parameter({2, 3});
  p.store_gradient_in(&gradients);
  r.recorder.take(r.lab.parameters);
  p.next_gradient_target();
  r.end();
  EXPECT_TRUE(r.calls.repeatable());
  EXPECT_EQ(r.program_calls(), 1) << "the request is recorded as one call, which a repetition makes again";
  p.release_gradient();
  r.calls.repeat(0, r.recorder, report_nothing);
  EXPECT_EQ(gradients.requests, 2);
  EXPECT_TRUE(p.has_gradient());
}

TEST(ParameterCalls, LeaveGradientsWithoutContributionsClear) {
  Recording r;
  r.recorder.contribute(r.parameter, [] {});
  r.end();
  bool written = true;
  r.calls.repeat(0, r.recorder, [&](Parameter& p) { written = p.has_gradient(); });
  EXPECT_FALSE(written);
}

TEST(ParameterCalls, RepeatCallsForOtherParameters) {
  Recording r;
  Parameter other{{.name = "other", .global_shape = {2, 3}, .placement = {}, .init = {}}, r.lab.context};
  r.parameter.next_write();
  r.recorder.contribute(r.parameter, [] {});
  r.end();
  const auto counterpart = [&](Parameter&) -> Parameter& { return other; };
  EXPECT_EQ(r.calls.other_gradient(counterpart), nullptr);
  const Parameter* reported = nullptr;
  r.calls.repeat(
      0, r.recorder, [&](Parameter& p) { reported = &p; }, counterpart);
  EXPECT_EQ(reported, &other);
  EXPECT_TRUE(other.has_gradient());
}

TEST(ParameterCalls, ContainWaitsForWeightsThatHadArrived) {
  Recording r;
  device::MetaStream compute(device::Lane::compute, &r.log);
  r.parameter.use(compute);
  r.end();
  EXPECT_TRUE(r.part.repeatable_after({}));
  const auto waits = std::ranges::count_if(r.part.calls, [](const auto& call) {
    const auto* wait = std::get_if<device::IssuePart::Wait>(&call);
    return wait && wait->program == 0;
  });
  EXPECT_EQ(waits, 1);
}

TEST(ParameterRecorder, GathersWithoutACallIfNoPartIsRecorded) {
  Recording r;
  r.end();
  r.parameter.use(r.stream());
  EXPECT_EQ(r.gatherer.gathers, 1);
  EXPECT_TRUE(r.gatherer.holders.expired());
  EXPECT_EQ(r.program_calls(), 0);
}

}  // namespace
}  // namespace hexad::tests
