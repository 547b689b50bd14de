#include "tools/plan/nearest_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "framework/base/divisors.h"
#include "tools/plan/plan_space.h"

namespace hexad::plan {

using train::Recipe;

namespace {

struct Sizes {
  int64_t ranks, pp, cp, tp, ep;
  int64_t etp;  // 0: equal to tp
  bool plain;   // true: placements and pipeline keys have their defaults
};

Recipe with_sizes(const Recipe& recipe, const Sizes& s) {
  Recipe r = recipe;
  r.parallel.pp = s.pp, r.parallel.cp = s.cp, r.parallel.tp = s.tp;
  r.parallel.ep = s.ep;
  r.parallel.etp.reset();
  if (s.etp > 0) r.parallel.etp = s.etp;
  r.parallel.sp = recipe.parallel.sp && (s.tp > 1 || recipe.parallel.tp == 1);
  if (!s.plain) return r;
  r.parallel.order.reset();
  r.parallel.cp_expansion = mesh::Expansion::automatic;
  r.schedule.pipeline.kind = pp::PipelineKind::one_f_one_b;
  r.schedule.pipeline.split.clear();
  r.schedule.pipeline.overlap = pp::Overlap::none;
  return r;
}

// Components of the distance between sizes, in order of decreasing importance.
using Distance = std::array<double, 7>;

Distance distance(const Recipe& recipe, const Sizes& s, int64_t max_ranks) {
  const train::ParallelConfig& p = recipe.parallel;
  const auto ratio = [](int64_t a, int64_t b) {
    return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
  };
  const double tp = ratio(s.tp, p.tp), pp = ratio(s.pp, p.pp), cp = ratio(s.cp, p.cp);
  const int64_t etp = s.etp > 0 ? s.etp : s.tp, own_etp = p.etp.value_or(p.tp);
  // Rounds the sum, so that sums remain equal if they differ only by the order of additions.
  const double sum = std::round(1e9 * (ratio(s.ranks, max_ranks) + tp + pp + cp));
  return {sum, tp, pp, cp, s.plain ? 1.0 : 0.0, ratio(etp, own_etp), ratio(s.ep, p.ep)};
}

// Returns the sizes to try on more than `fewest` and at most `most` ranks. The sizes satisfy these rules:
// - tp divides the heads.
// - pp is at most the number of layers.
// - cp divides half of the context.
// - dp divides the number of micro-batches.
// - ep divides the experts, and ep x etp divides the ranks of a stage.
std::vector<Sizes> sizes_to_try(const Recipe& recipe, int64_t fewest, int64_t most) {
  const int64_t experts = std::max<int64_t>(1, recipe.model.moe.experts);
  std::vector<int64_t> etps{recipe.parallel.etp.value_or(0)};
  if (experts > 1 && etps.front() != 1) etps.push_back(1);
  const std::vector<int64_t> tps = base::divisors(recipe.model.heads), eps = base::divisors(experts),
                             cps = base::divisors(std::max<int64_t>(1, recipe.model.context / 2)),
                             dps = base::divisors(recipe.batch.global / recipe.batch.micro);
  std::vector<Sizes> all;
  const auto add = [&](int64_t ranks, int64_t pp, int64_t cp, int64_t tp) {
    for (const int64_t ep : eps)
      for (const int64_t etp : etps) {
        if (ranks / pp % (ep * (etp > 0 ? etp : tp)) != 0) continue;
        for (const bool plain : {false, true}) all.push_back({ranks, pp, cp, tp, ep, etp, plain});
      }
  };
  for (const int64_t tp : tps)
    for (int64_t pp = 1; pp <= recipe.model.layers && tp * pp <= most; ++pp)
      for (const int64_t cp : cps) {
        if (tp * pp * cp > most) break;
        for (const int64_t dp : dps)
          if (const int64_t ranks = tp * pp * cp * dp; fewest < ranks && ranks <= most) add(ranks, pp, cp, tp);
      }
  return all;
}

// Returns the settings of `to` that `from` does not have. Both recipes have the same model, so they have the same
// settings in the same order.
std::vector<std::pair<std::string, std::string>> changes(const Recipe& from, const Recipe& to) {
  const auto before = PlanCandidate{from}.settings();
  auto after = PlanCandidate{to}.settings();
  std::erase_if(after, [&](const auto& setting) { return std::ranges::find(before, setting) != before.end(); });
  return after;
}

}  // namespace

std::optional<NearestLayout> nearest_layout(const config::Document& document, const Recipe& recipe,
                                            const train::Extensions& extensions, RankRange range,
                                            const FitsMemory& fits) {
  std::map<int64_t, LayoutRules> rules;  // by number of ranks
  // Searches on more than half of range.most ranks, then on more than a quarter and at most half, and so on.
  for (int64_t most = range.most; most >= std::max<int64_t>(1, range.fewest); most /= 2) {
    std::vector<std::pair<Distance, Sizes>> all;
    for (const Sizes& sizes : sizes_to_try(recipe, std::max(most / 2, range.fewest - 1), most))
      all.emplace_back(distance(recipe, sizes, range.most), sizes);
    std::ranges::stable_sort(all, {}, &std::pair<Distance, Sizes>::first);
    for (const auto& [far, sizes] : all) {
      Recipe r = with_sizes(recipe, sizes);
      const auto [found, added] = rules.try_emplace(sizes.ranks, document, extensions, sizes.ranks);
      if (found->second.broken(r) || !fits(r, sizes.ranks)) continue;
      auto changed = changes(recipe, r);
      return NearestLayout{.ranks = sizes.ranks, .recipe = std::move(r), .changes = std::move(changed)};
    }
  }
  return {};
}

}  // namespace hexad::plan
