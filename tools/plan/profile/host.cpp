#include <algorithm>

#include <fmt/format.h>

#include "parallel/comm/self_group.h"
#include "tools/plan/profile/parts.h"
#include "tools/plan/run_on_meta.h"
#include "tools/plan/step_prices.h"
#include "tools/plan/step_record.h"

namespace hexad::plan {
namespace {

// Returns a recipe for one rank. The kernels of this recipe take little time compared with the host's work.
train::Recipe tiny_recipe() {
  train::Recipe r;
  r.model.layers = 2, r.model.hidden = 64, r.model.heads = 2, r.model.context = 32, r.model.vocab = 128;
  r.model.moe.experts = 4, r.model.moe.top_k = 2, r.model.moe.expert_hidden = 64;
  r.model.moe.routing = moe::Routing::balanced;
  r.batch.micro = 1, r.batch.global = 4;
  return r;
}

// Operations of a step, and their seconds by the cluster's curves, without the host's time.
struct PricedStep {
  int64_t kernels = 0;   // number of kernels and copies
  int64_t on_lanes = 0;  // number of operations that a thread of a lane runs
  double seconds = 0;
};

PricedStep priced_step(const train::Recipe& r, Cluster cluster) {
  cluster.operation.reset(), cluster.handoff.reset();
  const mesh::Layout alone(r.parallel.sizes(), 1);
  const int64_t micro_batches = r.batch.global / r.batch.micro;
  const StepRecord record = record_steps(r, {}, alone, 0, RoutingLoad::even, {&micro_batches, 1}).front();
  const StepPrices prices(cluster, 1);
  const RecordPrices priced(prices, record);
  PricedStep step;
  for (const device::Issue& issue : record.issues) {
    step.on_lanes += issue.lane != device::Lane::compute;
    if (!issue.communicates()) ++step.kernels, step.seconds += priced.seconds(issue);
  }
  return step;
}

// Runs steps of the recipe on each rank alone. Returns the seconds of a step on the slowest rank.
double seconds_of_step(const train::Recipe& recipe, const Timer& timer, double seconds) {
  const comm::SelfGroup alone;
  train::ModelInstance instance(recipe, {}, alone);
  optim::Optimizer optimizer(recipe.optim, instance.parameters, recipe.offload.optimizer, {}, &instance.mesh);
  train::TrainStep step(recipe, instance, optimizer);
  const TwoDocuments source(recipe.model.context);
  train::Progress steps;
  return timer.median({1, [&] { step.run(source, steps, recipe.optim.lr); }, kernel_batch}, seconds);
}

}  // namespace

void measure_host(Cluster& cluster, const Timer& timer, double seconds, const Progress& progress) {
  const auto per = [](double left, int64_t operations) {
    base::require(operations > 0, "[profile] a step has ", operations, " operations, expected at least one");
    return std::clamp(rounded(left / static_cast<double>(operations)), 0.0, longest_operation);
  };
  train::Recipe recipe = tiny_recipe();
  const PricedStep plain = priced_step(recipe, cluster);
  const double took = seconds_of_step(recipe, timer, seconds / 2);
  cluster.operation = per(took - plain.seconds, plain.kernels);
  recipe.schedule.moe.chunk_by = moe::ChunkBy::tokens, recipe.schedule.moe.chunks = 2;
  const PricedStep chunked = priced_step(recipe, cluster);
  const double took_chunked = seconds_of_step(recipe, timer, seconds / 2);
  const double known = chunked.seconds + *cluster.operation * static_cast<double>(chunked.kernels);
  cluster.handoff = per(took_chunked - known, chunked.on_lanes);
  progress(fmt::format("host: {:.2f} us per operation, {:.2f} us more for an operation on a lane's thread",
                       1e6 * *cluster.operation, 1e6 * *cluster.handoff));
}

}  // namespace hexad::plan
