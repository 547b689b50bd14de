#include "tools/train/checkpoint/open_on_ranks.h"

#include <algorithm>
#include <optional>

#include "framework/base/divisors.h"
#include "framework/base/error.h"
#include "parallel/mesh/layout.h"

namespace hexad::train {

using base::cat;
namespace {

// Returns the largest divisor of `ranks` that divides `experts`; 1 for a model without experts.
int64_t max_expert_ranks(int64_t experts, int64_t ranks) {
  int64_t most = 1;
  for (const int64_t d : base::divisors(ranks))
    if (experts > 0 && experts % d == 0) most = d;
  return most;
}

struct Candidate {
  int64_t pp, tp, dp, ep;
  bool whole_experts;  // true: etp is 1, so a rank holds whole experts; false: etp equals tp

  std::vector<std::string> overrides() const {
    std::vector<std::string> list = one_rank_overrides();
    list.push_back(cat("parallel.pp=", pp));
    list.push_back(cat("parallel.tp=", tp));
    list.push_back(cat("parallel.ep=", ep));
    if (whole_experts) list.emplace_back("parallel.etp=1");
    if (pp > 1)
      for (const char* plain :
           {"schedule.pipeline.kind=1f1b", "schedule.pipeline.split=[]", "schedule.pipeline.overlap=none"})
        list.emplace_back(plain);
    return list;
  }
};

// True if the layout is legal for these ranks and this use.
bool possible(const Recipe& recipe, int64_t world, TrainedUse use) {
  if (use == TrainedUse::generation && recipe.parallel.cp > 1) return false;
  try {
    mesh::Layout(recipe.parallel.sizes(), static_cast<int>(world));
    return true;
  } catch (const mesh::IllegalLayout&) {
    return false;
  }
}

// Opens the run in a candidate's layout; none if the layout is illegal for the model.
std::optional<SavedRun> open_candidate(const RunRequest& request, const std::vector<std::string>& layout,
                                       const Extensions& extensions, const base::FileWork& work) {
  std::vector<std::string> overrides = layout;
  overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
  try {
    return open_run(request.path, overrides, request.step, extensions, work);
  } catch (const base::Error& e) {
    if (e.code() != base::ExitCode::usage) throw;
    return {};
  }
}

RunOnRanks described(SavedRun run, int64_t world, std::string_view origin) {
  std::string layout = cat(describe(run.recipe.parallel, world), " (", origin, ")");
  return {std::move(run), std::move(layout)};
}

}  // namespace

std::vector<std::vector<std::string>> layout_candidates(const Recipe& recipe, int64_t world, TrainedUse use) {
  const int64_t experts = recipe.model.moe.experts;
  std::vector<Candidate> all;
  for (const int64_t pp : base::divisors(world))
    for (const int64_t tp : base::divisors(world / pp)) {
      const int64_t stage = world / pp, dp = stage / tp;
      all.push_back({pp, tp, dp, max_expert_ranks(experts, stage), experts > 0});
      if (experts > 0 && tp > 1) all.push_back({pp, tp, dp, max_expert_ranks(experts, dp), false});
    }
  std::ranges::stable_sort(all, [&](const Candidate& a, const Candidate& b) {
    if (a.dp != b.dp) return use == TrainedUse::generation ? a.dp < b.dp : a.dp > b.dp;
    return a.tp > b.tp;
  });
  std::vector<std::vector<std::string>> overrides;
  for (const Candidate& c : all) overrides.push_back(c.overrides());
  return overrides;
}

RunOnRanks open_on_ranks(const RunRequest& request, TrainedUse use, const Extensions& extensions,
                         const std::function<bool(const Recipe&)>& fits, const base::FileWork& work) {
  const int64_t world = request.world;
  if (world == 1) {
    std::vector<std::string> overrides = one_rank_overrides();
    overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
    return {open_run(request.path, overrides, request.step, extensions, work), {}};
  }
  SavedRun own = open_run(request.path, request.overrides, request.step, extensions, work);
  const bool named = std::ranges::any_of(request.overrides, [](const std::string& o) {
    return o.starts_with("parallel.") || o.starts_with("parallel=");  // parallel.tp=2 or parallel={tp: 2}
  });
  if (named) return described(std::move(own), world, "of the command line");
  // In generation, a layout of fewer ranks would only be replicated, and all replicas would compute the same values.
  const bool busy = use == TrainedUse::evaluation || own.recipe.parallel.fewest_ranks() == world;
  if (busy && possible(own.recipe, world, use)) return described(std::move(own), world, "the run's layout");
  constexpr std::string_view chosen = "chosen for these ranks; set parallel.* to choose another";
  std::optional<SavedRun> first;
  for (const std::vector<std::string>& layout : layout_candidates(own.recipe, world, use)) {
    std::optional<SavedRun> run = open_candidate(request, layout, extensions, work);
    if (!run || !possible(run->recipe, world, use)) continue;
    if (fits(run->recipe)) return described(std::move(*run), world, chosen);
    if (!first) first = std::move(run);
  }
  if (first) return described(std::move(*first), world, chosen);
  base::fail(
      base::ExitCode::usage, "the model of '", request.path, "' has no legal layout on ", world,
      " ranks; expected a number of ranks whose factors divide the model's heads, layers or experts, for example 1");
}

}  // namespace hexad::train
