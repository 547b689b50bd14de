#include "tools/hexad/commands/trained_run.h"

#include <algorithm>

#include "framework/base/failure.h"
#include "framework/base/path_problem.h"
#include "framework/data/dataset_paths.h"
#include "framework/data/digest.h"
#include "framework/data/file.h"
#include "framework/data/token_dataset.h"
#include "framework/kernels/cpu/parallel.h"
#include "parallel/comm/text_collectives.h"
#include "tools/plan/memory_check.h"
#include "tools/train/checkpoint/run_directory.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/first_failure.h"
#include "tools/train/process/say.h"
#include "tools/train/recipe/complete.h"
#include "tools/train/recipe/traffic_options.h"

namespace hexad::app {

using namespace base;
using namespace train;

namespace {

// Completes the recipe. The recipe's rules require a micro-batch for each data-parallel rank, even if the model is not
// trained. Increases batch.global if it is too small for this rule.
void make_ready(Recipe& recipe, int64_t cores, int64_t world) {
  complete(recipe, cores);
  const ParallelConfig& p = recipe.parallel;
  const int64_t dp = std::max<int64_t>(1, world / (p.pp * p.cp * p.tp));
  recipe.batch.global = std::max(recipe.batch.global, recipe.batch.micro * dp);
}

// Returns, on all ranks, the step of the checkpoint that rank 0 finds. If each rank searched, some ranks could find a
// checkpoint that a run has just saved. The ranks would then combine weights of two steps.
std::string step_for_all_ranks(const RunRequest& request, const comm::World& world) {
  if (world.size() == 1) return request.step;
  const auto phase = world.file_work().announce("reading " + request.path);
  std::string step;
  if (world.rank() == 0) step = cat(open_saved_checkpoint(request.path, request.step, world.file_work()).step());
  device::DeviceContext host;
  return comm::broadcast_text(step, 0, world.group(), host);
}

}  // namespace

TrainedRun open_trained_run(const RunRequest& request, TrainedUse use, const Extensions& extensions,
                            comm::World& world) {
  const int64_t cores = find_cores(world.group()).rank_cores;
  const auto memory_use = use == TrainedUse::generation ? plan::ModelUse::generation : plan::ModelUse::evaluation;
  const auto fits = [&](const Recipe& candidate) {
    Recipe recipe = candidate;
    make_ready(recipe, cores, world.size());
    // The lengths of the prompts are not known yet, so one sequence of the whole context is assumed.
    const int64_t cached = use == TrainedUse::generation ? recipe.model.context : 0;
    const plan::MemoryFit fit = plan::memory_fit(recipe, extensions, world, memory_use, cached);
    return fit.verdict != plan::MemoryFit::Verdict::too_much;
  };
  const std::string step = step_for_all_ranks(request, world);
  auto [run, layout] =
      open_on_ranks({request.path, request.overrides, step, request.world}, use, extensions, fits, world.file_work());
  const ChosenSchedule schedule = take_chosen_schedule(run);
  make_ready(run.recipe, cores, world.size());
  world.set_guards(guards_of(run.recipe.distributed));
  order_traffic(world, run.recipe.distributed);
  kernels::cpu::set_thread_count(static_cast<int>(*run.recipe.train.threads));
  if (world.rank() == 0 && !layout.empty()) say(cat("layout on ", world.size(), " ranks: ", layout));
  if (world.rank() == 0 && !schedule.used.empty()) say(cat("schedule.moe: using the run's choice, ", schedule.used));
  if (world.rank() == 0 && !schedule.unused.empty())
    say(cat("schedule.moe: auto keys have their defaults; ", schedule.unused));
  return {std::move(run.recipe), std::move(run.checkpoint), std::move(layout)};
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const Recipe& recipe, const std::string& run,
                                              const std::string& purpose) {
  if (recipe.data.registered())
    fail(ExitCode::usage, "'", run, "' was trained on the source ", recipe.data.source_name(),
         ", which has no tokenizer, so the run cannot ", purpose, "; expected a run on a prepared dataset");
  const std::string folder = recipe.data.dataset.empty() ? recipe.data.mixture.front().dataset : recipe.data.dataset;
  const std::string path = data::tokenizer_path(folder);
  if (file_problem(path) == "no such file")
    fail(ExitCode::data, folder, " has no tokenizer (", path, "), so '", run, "' cannot ", purpose,
         "; copy the dataset's tokenizer into this folder");
  auto tokenizer = data::load_tokenizer(path);
  if (tokenizer->vocab_size() > recipe.model.vocab)
    fail(ExitCode::usage, "model.vocab (", recipe.model.vocab, ") must be at least the vocabulary of ", folder,
         "'s tokenizer: ", tokenizer->vocab_size(), "; name a dataset whose tokenizer was used to train '", run, "'");
  return tokenizer;
}

std::string replaced_data(const TrainedRun& run, const std::vector<std::string>& overrides) {
  const data::DataConfig& config = run.recipe.data;
  const auto sets_data = [](const std::string& text) { return text.starts_with("data.") || text.starts_with("data="); };
  if (config.registered() || std::ranges::any_of(overrides, sets_data)) return "";
  std::vector<std::string> datasets;
  if (!config.dataset.empty()) datasets.push_back(config.dataset);
  for (const auto& part : config.mixture) datasets.push_back(part.dataset);
  const std::vector<data::Digest> before = saved_fingerprints(run.checkpoint);
  if (before.size() != datasets.size()) return "";  // the checkpoint has no fingerprints of these datasets
  for (size_t i = 0; i < datasets.size(); ++i) {
    const std::string path = data::train_path(datasets[i]);
    if (!file_problem(path).empty()) continue;
    try {
      const data::Digest now = data::TokenDataset(path, {.check = data::DatasetCheck::structure}).fingerprint();
      if (now == before[i]) continue;
      return cat(datasets[i], ": was replaced after ", run.checkpoint.folder(), " was saved: fingerprint ", now,
                 ", expected ", before[i],
                 ". Its texts and tokenizer may differ from those of the run; prepare the run's dataset again, or "
                 "name data on the command line (data.dataset=FOLDER)");
    } catch (const Error&) {  // damaged tokens do not show that the dataset was replaced
      continue;
    }
  }
  return "";
}

void require_same_file(const comm::World& world, const std::string& path) {
  device::DeviceContext host;
  int64_t mine = 0;
  throw_first(attempted([&] { mine = static_cast<int64_t>(data::digest_of(data::read_file(path)).low); }),
              world.group());
  const std::string first = comm::broadcast_text(cat(mine), 0, world.group(), host);
  if (const auto other = comm::first_text(cat(mine) != first ? path : "", 0, world.group(), host))
    fail(ExitCode::data, "'", path, "' differs between rank 0 and rank ", other->rank,
         "; expected the same contents on all ranks");
}

void require_decoder(const Recipe& recipe, const std::string& run, const std::string& purpose) {
  if (recipe.model.kind != layers::ModelKind::encoder) return;
  const moe::MoeConfig& m = recipe.model.moe;
  const std::string_view why = m.experts > 0 && m.experts_choose()
                                   ? " and a router other than expert_choice, because expert_choice needs later tokens "
                                     "to choose a token's experts"
                                   : "";
  fail(ExitCode::usage, "'", run, "' is a run of an encoder, which does not ", purpose,
       "; expected model.kind: decoder", why);
}

}  // namespace hexad::app
