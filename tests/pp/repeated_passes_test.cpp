// Choice of the passes that are recorded, repeated and run. tests/plan/repeated_passes_test.cpp compares whole steps.
#include "parallel/pp/repeated_passes.h"

#include <gtest/gtest.h>

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
  RepeatedPasses passes{log, recorder};
};

void repeat(RepeatedPasses& passes, Kind kind, int micro) {
  passes.repeat(kind, 0, micro, [](Parameter&) {});
}

// Records a forward and a backward of one kernel each.
void record(RepeatedPasses& passes, IssueLog& log) {
  passes.begin(actions_of(PipelineKind::gpipe, RepeatedPasses::recorded_micro_batches),
               RepeatedPasses::recorded_micro_batches);
  for (const Kind kind : {Kind::forward, Kind::backward}) {
    passes.start(kind, 0);
    add_kernel(log);
    passes.end(kind, 0);
  }
  passes.end_recording();
}

TEST(RepeatedPasses, RecordTheLastMicroBatch) {
  Log of;
  RepeatedPasses& passes = of.passes;
  passes.begin(actions_of(PipelineKind::gpipe, 2), 2);
  EXPECT_FALSE(passes.records(0));
  EXPECT_TRUE(passes.records(1));
  EXPECT_FALSE(passes.repeats(1)) << "nothing is recorded yet";
}

TEST(RepeatedPasses, RepeatAllMicroBatchesExceptTheFirst) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b}) {
    passes.begin(actions_of(kind, 4), 4);
    for (int micro = 0; micro < 4; ++micro) {
      EXPECT_EQ(passes.repeats(micro), micro > 0) << name_of(kind) << ", micro-batch " << micro;
      EXPECT_FALSE(passes.records(micro));
    }
  }
  const size_t before = log.issues().size();
  repeat(passes, Kind::forward, 1), repeat(passes, Kind::backward, 1);
  EXPECT_EQ(log.issues().size(), before + 2);
  EXPECT_EQ(passes.repeated(), 2);
}

TEST(RepeatedPasses, RunPassesOfKindsThatWereNotRecorded) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  passes.begin(actions_of(PipelineKind::zb_h1, 4), 4);
  EXPECT_FALSE(passes.repeats(1));
}

TEST(RepeatedPasses, AreNotRecordedIfTheFirstMicroBatchDoesNotContributeFirst) {
  Log of;
  RepeatedPasses& passes = of.passes;
  std::vector<Action> actions = actions_of(PipelineKind::gpipe, 2);
  std::swap(actions[2], actions[3]);  // the two backwards
  passes.begin(actions, 2);
  EXPECT_FALSE(passes.records(1));
}

TEST(RepeatedPasses, RunIfTheFirstMicroBatchDoesNotContributeFirst) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  record(passes, log);
  std::vector<Action> actions = actions_of(PipelineKind::gpipe, 3);
  passes.begin(actions, 3);
  EXPECT_TRUE(passes.repeats(1));
  std::swap(actions[3], actions[4]);  // the backwards of micro-batches 0 and 1
  passes.begin(actions, 3);
  EXPECT_FALSE(passes.repeats(1));
}

TEST(RepeatedPasses, RunIfARecordedPassWaitsForAnEarlierEvent) {
  Log of;
  IssueLog& log = of.log;
  RepeatedPasses& passes = of.passes;
  device::MetaStream inter(Lane::inter, &log), compute(Lane::compute, &log);
  add_kernel(log);
  const device::Event before = compute.record();
  passes.begin(actions_of(PipelineKind::gpipe, 2), 2);
  passes.start(Kind::forward, 0);
  inter.wait(before);
  passes.end(Kind::forward, 0);
  passes.start(Kind::backward, 0);
  passes.end(Kind::backward, 0);
  passes.end_recording();
  passes.begin(actions_of(PipelineKind::gpipe, 3), 3);
  EXPECT_FALSE(passes.repeats(1));
}

}  // namespace
}  // namespace hexad::pp
