// Choice of the passes that are recorded, repeated and run. tests/plan/repeated_passes_test.cpp compares whole steps.
#include "parallel/pp/repeated_passes.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "framework/device/meta/meta_stream.h"

namespace hexad::pp {
namespace {

using device::IssueLog;
using device::Lane;
using Kind = Action::Kind;

std::vector<Action> actions_of(PipelineKind kind, int micro_batches) {
  PipelineConfig config;
  config.kind = kind;
  return make_schedule(config, 1, micro_batches).ranks[0];
}

void add_kernel(IssueLog& log) { log.add("kernel", "", Lane::compute, device::MemoryWork{1}); }

// Storage of the weights of a model without parameters.
class NoWeights final : public WeightStorage {
 public:
  GatheredWeights gather_weights(Parameter&, Stream&) override { return {}; }
  bool weights_are_resident(const Parameter&) const override { return true; }
};

// A log, and passes of a model without parameters.
struct Log {
  IssueLog log{IssueLog::Host::launches};
  NoWeights weights;
  ParameterRecorder recorder{weights};
  RepeatedPasses passes{log, recorder, 1};
};

void repeat(RepeatedPasses& passes, Kind kind, int micro) {
  passes.repeat(kind, 0, micro, [](Parameter&) {});
}

// Records a forward and a backward of one kernel each.
void record(RepeatedPasses& passes, IssueLog& log) {
  passes.begin(actions_of(PipelineKind::gpipe, RepeatedPasses::recorded_micro_batches),
               RepeatedPasses::recorded_micro_batches);
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    passes.start(kind, 0, 1);
    add_kernel(log);
    passes.end(kind, 0, 1);
  }
  passes.end_recording();
}

TEST(RepeatedPasses, RecordTheSecondOfTwoMicroBatches) {
  Log of;
  RepeatedPasses& passes = of.passes;
  passes.begin(actions_of(PipelineKind::gpipe, 2), 2);
  EXPECT_FALSE(passes.records(0, 0));
  EXPECT_TRUE(passes.records(0, 1));
  EXPECT_FALSE(passes.repeats(0, 1)) << "nothing is recorded yet";
}

TEST(RepeatedPasses, RepeatAllMicroBatchesExceptTheFirst) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b}) {
    passes.begin(actions_of(kind, 4), 4);
    for (int micro = 0; micro < 4; ++micro) {
      EXPECT_EQ(passes.repeats(0, micro), micro > 0) << name_of(kind) << ", micro-batch " << micro;
      EXPECT_FALSE(passes.records(0, micro));
    }
  }
  const size_t before = log.issues().size();
  repeat(passes, Kind::forward, 1), repeat(passes, Kind::backward, 1);
  EXPECT_EQ(log.issues().size(), before + 2);
  EXPECT_EQ(passes.repeated(), 2);
}

// Actions of a rank that delays the weight gradients of the micro-batches for which `delays` is true.
std::vector<Action> actions_with_delays(const std::vector<bool>& delays) {
  std::vector<Action> actions;
  const auto count = static_cast<int>(delays.size());
  for (int micro = 0; micro < count; ++micro) actions.push_back({Kind::forward, 0, micro});
  for (int micro = 0; micro < count; ++micro) {
    actions.push_back({delays[micro] ? Kind::backward_input : Kind::backward, 0, micro});
    if (delays[micro]) actions.push_back({Kind::backward_weight, 0, micro});
  }
  return actions;
}

// Runs the actions as RepeatedStages does. Each recorded pass has one kernel. Returns the micro-batches that run.
std::set<int> run(RepeatedPasses& passes, IssueLog& log, const std::vector<Action>& actions, int micro_batches) {
  std::set<int> run;
  passes.begin(actions, micro_batches);
  for (const Action& a : actions) {
    if (passes.repeats(0, a.micro)) {
      repeat(passes, a.kind, a.micro);
      continue;
    }
    run.insert(a.micro);
    if (!passes.records(0, a.micro)) continue;
    passes.start(a.kind, 0, a.micro);
    add_kernel(log);
    passes.end(a.kind, 0, a.micro);
  }
  return run;
}

TEST(RepeatedPasses, RecordOneMicroBatchWithAndOneWithoutDelayedWeightGradients) {
  Log of;
  EXPECT_EQ(run(of.passes, of.log, actions_with_delays({true, false, false, true, true}), 5), (std::set{0, 1, 3}));
  of.passes.end_recording();
  EXPECT_EQ(run(of.passes, of.log, actions_with_delays({false, true, false, true, false, true}), 6), (std::set{0}));
}

TEST(RepeatedPasses, RecordNoMicroBatchBeforeTheFirstRecorded) {
  for (const int first : {0, 1, 2}) {
    SCOPED_TRACE(first);
    IssueLog log{IssueLog::Host::launches};
    NoWeights weights;
    ParameterRecorder recorder{weights};
    RepeatedPasses passes(log, recorder, first);
    const std::vector<Action> actions = actions_with_delays({false, false, false, false});
    EXPECT_EQ(run(passes, log, actions, 4), first == 2 ? (std::set{0, 1, 2}) : (std::set{0, 1}));
    passes.end_recording();
    EXPECT_EQ(run(passes, log, actions, 4), first == 0 ? std::set<int>{} : std::set{0});
  }
}

TEST(RepeatedPasses, ThrowIfABackwardOfARepeatedForwardCannotBeRepeated) {
  Log of;
  RepeatedPasses& passes = of.passes;
  device::MetaStream inter(Lane::inter, &of.log), compute(Lane::compute, &of.log);
  add_kernel(of.log);
  const device::Event before = compute.record();
  passes.begin(actions_with_delays({false, false, false}), 3);
  passes.start(Kind::forward, 0, 1), passes.end(Kind::forward, 0, 1);
  repeat(passes, Kind::forward, 2);
  EXPECT_THROW(repeat(passes, Kind::backward, 2), PassesDiffer) << "no backward is recorded yet";
  passes.start(Kind::backward, 0, 1);
  inter.wait(before);
  passes.end(Kind::backward, 0, 1);
  EXPECT_THROW(repeat(passes, Kind::backward, 2), PassesDiffer) << "the backward waits for an earlier event";
}

TEST(RepeatedPasses, RunPassesOfKindsThatWereNotRecorded) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  passes.begin(actions_of(PipelineKind::zb_h1, 4), 4);
  EXPECT_FALSE(passes.repeats(0, 1));
}

TEST(RepeatedPasses, AreNotRecordedIfTheFirstMicroBatchDoesNotContributeFirst) {
  Log of;
  RepeatedPasses& passes = of.passes;
  std::vector<Action> actions = actions_of(PipelineKind::gpipe, 2);
  std::swap(actions[2], actions[3]);  // the two backwards
  passes.begin(actions, 2);
  EXPECT_FALSE(passes.records(0, 1));
}

TEST(RepeatedPasses, RunIfTheFirstMicroBatchDoesNotContributeFirst) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  std::vector<Action> actions = actions_of(PipelineKind::gpipe, 3);
  passes.begin(actions, 3);
  EXPECT_TRUE(passes.repeats(0, 1));
  std::swap(actions[3], actions[4]);  // the backwards of micro-batches 0 and 1
  passes.begin(actions, 3);
  EXPECT_FALSE(passes.repeats(0, 1));
}

TEST(RepeatedPasses, RunIfARecordedPassWaitsForAnEarlierEvent) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  device::MetaStream inter(Lane::inter, &log), compute(Lane::compute, &log);
  add_kernel(log);
  const device::Event before = compute.record();
  passes.begin(actions_of(PipelineKind::gpipe, 2), 2);
  passes.start(Kind::forward, 0, 1);
  inter.wait(before);
  passes.end(Kind::forward, 0, 1);
  passes.start(Kind::backward, 0, 1);
  passes.end(Kind::backward, 0, 1);
  passes.end_recording();
  passes.begin(actions_of(PipelineKind::gpipe, 3), 3);
  EXPECT_FALSE(passes.repeats(0, 1));
}

}  // namespace
}  // namespace hexad::pp
