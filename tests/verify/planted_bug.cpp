#include "tests/verify/planted_bug.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/autograd/parameter.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/complete.h"
#include "tools/verify/minimal.h"
#include "tools/verify/outcome_text.h"

namespace hexad::tests {

using namespace verify;

void expect_found(const Bug& bug) {
  const Scratch scratch;
  std::vector<std::string> overrides{"distributed.bucket_bytes=1"};  // every parameter is reduced separately
  overrides.insert(overrides.end(), bug.overrides.begin(), bug.overrides.end());
  Recipe recipe = small_recipe(overrides);
  train::complete(recipe, 1);
  const layers::Registry registry;
  const Subject subject(recipe, registry, 2, scratch.path());
  Oracles oracles(subject);
  const ThreadRuns how{.jitter = {}, .seconds = 60};
  const Variant layout = parse_layouts(bug.layout, 4)[0];

  const Outcome right = run_in_threads(subject, oracles.of(layout), layout, how);
  EXPECT_TRUE(right.agrees()) << explanation(right);
  const Outcome wrong = run_in_threads(subject, oracles.of(layout), layout, how, *bug.sabotage);
  ASSERT_FALSE(wrong.agrees());
  EXPECT_NE(wrong.error.find(bug.error), std::string::npos) << wrong.error;
  ASSERT_EQ(wrong.error.empty(), bug.error.empty()) << wrong.error;
  if (bug.error.empty()) {
    EXPECT_NE(wrong.comparison.mismatches[0].what.find(bug.where), std::string::npos) << explanation(wrong);
  }

  const Variant smallest = minimal_failure(layout, [&](const Variant& v) {
    return subject.illegal(v).empty() && !run_in_threads(subject, oracles.of(v), v, how, *bug.sabotage).agrees();
  });
  EXPECT_EQ(smallest.text(), bug.smallest);
}

void initialize_experts_of(TrainingRun& run, int ep_rank) {
  for_each_expert_tensor(run, [&](autograd::Parameter& p) {
    autograd::Parameter::Spec spec = p.spec();
    for (base::Shard& s : spec.placement.shards)
      if (s.axis == Axis::ep) s.index = ep_rank;
    autograd::Parameter other(spec, run.instance.device());
    other.initialize(run.recipe.train.seed);
    std::memcpy(p.local().raw(), other.local().raw(), p.local().bytes());
  });
}

std::optional<device::Event> own_scores_only(const comm::ProcessGroup& right, const comm::Operation& op,
                                             device::Stream& stream) {
  if (op.kind != comm::Operation::Kind::all_gather || right.name() != "tp x cp" || op.in.dtype() != base::Dtype::f64)
    return {};
  right.all_gather(op.out, op.in, stream).wait();
  const int64_t n = op.in.numel();
  for (int64_t i = 0; i < op.out.numel(); ++i)
    if (i / n != right.rank()) op.out.data<double>()[i] = 0;
  return stream.record();
}

}  // namespace hexad::tests
