#include "tools/hexad/commands/trained_run.h"

#include <algorithm>

#include "framework/data/dataset_paths.h"
#include "framework/kernels/cpu/parallel.h"
#include "tools/plan/memory_check.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::app {

using namespace base;
using namespace train;

namespace {

// Completes the recipe, and makes its batch large enough for all data-parallel ranks, which only training requires.
void make_ready(Recipe& recipe, int64_t cores, int64_t world) {
  complete(recipe, cores);
  const ParallelConfig& p = recipe.parallel;
  const int64_t dp = std::max<int64_t>(1, world / (p.pp * p.cp * p.tp));
  recipe.batch.global = std::max(recipe.batch.global, recipe.batch.micro * dp);
}

}  // namespace

TrainedRun open_trained_run(const RunRequest& request, TrainedUse use, const Extensions& extensions,
                            comm::World& world) {
  const int64_t cores = find_cores(world).of_rank;
  const auto memory_use = use == TrainedUse::generation ? plan::ModelUse::generation : plan::ModelUse::evaluation;
  const auto fits = [&](const Recipe& candidate) {
    Recipe recipe = candidate;
    make_ready(recipe, cores, world.size());
    return plan::memory_fit(recipe, extensions, world, memory_use).verdict != plan::MemoryFit::Verdict::too_much;
  };
  auto [run, layout] = open_on_ranks(request, use, extensions, fits, world.file_work());
  make_ready(run.recipe, cores, world.size());
  world.set_guards(guards_of(run.recipe.distributed));
  order_traffic(world, run.recipe.distributed);
  kernels::cpu::set_thread_count(static_cast<int>(*run.recipe.train.threads));
  if (world.rank() == 0 && !layout.empty()) say(cat("layout on ", world.size(), " ranks: ", layout));
  return {std::move(run.recipe), std::move(run.checkpoint), std::move(layout)};
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const Recipe& recipe, const std::string& run,
                                              const std::string& purpose) {
  if (recipe.data.registered())
    fail(ExitCode::usage, "'", run, "' was trained on the source ", recipe.data.source_name(),
         ", which has no tokenizer, so it cannot ", purpose);
  const std::string folder = recipe.data.dataset.empty() ? recipe.data.mixture.front().dataset : recipe.data.dataset;
  return data::load_tokenizer(data::tokenizer_path(folder));
}

void require_decoder(const Recipe& recipe, const std::string& run, const std::string& purpose) {
  if (recipe.model.kind == layers::ModelKind::encoder)
    fail(ExitCode::usage, "'", run, "' is a run of an encoder, which does not ", purpose,
         "; expected model.kind: decoder");
}

}  // namespace hexad::app
