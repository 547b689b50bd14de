#include "tools/verify/run_variant.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/engine_ranks.h"
#include "parallel/comm/thread_group.h"
#include "tools/train/model/weight_fault.h"
#include "tools/verify/exactness.h"
#include "tools/verify/toy_sizes.h"
#include "tools/verify/trainer_comparison.h"

namespace hexad::verify {

using namespace base;
using namespace train;
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Compares the results of the trained model in held-out evaluation and in generation.
void compare_use(Comparer& comparer, const Subject& subject, const Oracle& oracle, TrainingRun& run,
                 const Exactness& exactness, const Sabotage& sabotage) {
  const std::unique_ptr<data::Source> wrong = sabotage.heldout(subject.heldout(), run);
  comparer.evaluation(run.progress.step, oracle.heldout,
                      evaluate(run.instance, run.recipe, wrong ? *wrong : subject.heldout(),
                               subject.heldout_sequences(), subject.bytes_per_id()));
  // Rounding may change the most probable token, so generated tokens are compared only for runs without rounding.
  if (can_generate(run.recipe) && !exactness.follows_routing())
    comparer.generated(run.progress.step, oracle.continued, generated(subject, run.instance));
}

}  // namespace

double watchdog_seconds(const Recipe& recipe, double seconds) {
  return std::min(recipe.distributed.watchdog_seconds, seconds / 4);
}

Comparison run_on_rank(const Subject& subject, const Oracle& oracle, const Variant& variant,
                       const comm::ProcessGroup& true_world, const Sabotage& sabotage) {
  const std::unique_ptr<comm::ProcessGroup> wrong_world = sabotage.groups(true_world, variant.mesh);
  const comm::ProcessGroup& world = wrong_world ? *wrong_world : true_world;
  if (variant["start"] == "trained") return train_on_rank(subject, oracle, variant, world);
  TrainingRun run(subject.recipe_for(variant), world, subject.extensions(), [&](TrainingRun& r) {
    ruin_gradient(oracle, r);
    sabotage.reduced(r);
    inject_gradient_fault(world.rank(), r.progress.step + 1, r.instance);
  });
  const Exactness exactness = exactness_of(run.recipe);
  if (exactness.follows_routing() && !oracle.routing.empty()) run.instance.routing_from = &oracle.routing;
  begin_course(oracle, run);
  sabotage.initialized(run);
  const std::unique_ptr<data::Source> wrong_data = sabotage.data(subject.source(), run);
  const data::Source& source = wrong_data ? *wrong_data : subject.source();

  Comparer comparer(exactness.tolerance, exactness.measure, exactness.least_unit);
  const Expected& first = oracle.steps.front();
  comparer.tensors(0, "initial weight", first.weights, run.held_weights());
  comparer.tensors(0, "initial state", first.states, run.held_states());
  const bool resumed = variant["start"] == "resumed";
  if (resumed) {
    run.load(oracle.checkpoint);
    sabotage.loaded(run);
    comparer.tensors(1, "loaded weight", oracle.steps[1].weights, run.held_weights());
    comparer.tensors(1, "loaded state", oracle.steps[1].states, run.held_states());
  }
  while (run.progress.step < subject.steps()) {
    sabotage.before_step(run);
    StepResult result = run.step(source);
    sabotage.after_step(run, result);
    const Expected& expected = oracle.steps[run.progress.step];
    comparer.result(run.progress.step, expected.result, result);
    comparer.tensors(run.progress.step, "gradient", expected.gradients, run.held_gradients());
    comparer.tensors(run.progress.step, "weight", expected.weights, run.held_weights());
    comparer.tensors(run.progress.step, "state", expected.states, run.held_states());
  }
  compare_use(comparer, subject, oracle, run, exactness, sabotage);
  if (resumed) {
    run.save();
    const auto& expected = oracle.steps.back().states;
    std::vector<Piece> saved;
    if (true_world.rank() == 0)
      saved = saved_states(checkpoint_folder(run.recipe, subject.steps()), expected, run.instance.device().host());
    comparer.tensors(subject.steps(), "saved", expected, saved);
  }
  return comparer.merged(true_world, run.instance.context);
}

Outcome run_in_world(const Subject& subject, const Oracle& oracle, const Variant& variant,
                     const comm::ProcessGroup& world) {
  kernels::cpu::set_thread_count(variant.kernel_threads());
  const WithBlockSizes toy(toy_blocks);
  const Quiet quiet(variant);
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome{.variant = variant};
  outcome.comparison = run_on_rank(subject, oracle, variant, world);
  if (world.rank() == 0) std::filesystem::remove_all(subject.folder() + "/run");
  outcome.seconds = seconds_since(start);
  return outcome;
}

namespace {

void start_ranks(const Variant& variant, const ThreadRuns& how, double watchdog, comm::MakeMessagePlan plan,
                 const std::function<void(const comm::ProcessGroup& world)>& body) {
  const int world = variant.mesh.world();
  if (variant["transport"] == "engine") {
    const comm::CommEngine::Options engine{
        .limits = toy_limits, .guards = {.watchdog_seconds = watchdog}, .make_message_plan = plan};
    return comm::with_engine_ranks(
        world, body, {.node_of_rank = nodes_of_threads(world), .adversary = how.jitter.value_or(1), .engine = engine});
  }
  comm::ThreadOptions options{.node_of_rank = nodes_of_threads(world), .watchdog_seconds = watchdog};
  if (how.jitter) options.jitter = {.seed = *how.jitter, .max_delay = longest_delay};
  comm::with_ranks(world, body, options);
}

}  // namespace

Outcome run_in_threads(const Subject& subject, const Oracle& oracle, const Variant& variant, const ThreadRuns& how,
                       const Sabotage& sabotage) {
  Outcome outcome{.variant = variant};
  const WithBlockSizes toy(toy_blocks);
  const Quiet quiet(variant);
  const auto start = std::chrono::steady_clock::now();
  try {
    const double watchdog = watchdog_seconds(subject.recipe(), how.seconds);
    start_ranks(variant, how, watchdog, sabotage.plan(), [&](const comm::ProcessGroup& world) {
      kernels::cpu::set_thread_count(variant.kernel_threads());
      const Comparison comparison = run_on_rank(subject, oracle, variant, world, sabotage);
      if (world.rank() == 0) outcome.comparison = comparison;
    });
  } catch (const std::exception& e) {
    outcome.error = e.what();
  }
  std::filesystem::remove_all(subject.folder() + "/run");
  outcome.seconds = seconds_since(start);
  return outcome;
}

}  // namespace hexad::verify
