#include "tools/plan/plan_space.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "framework/base/divisors.h"
#include "framework/base/enum_names.h"
#include "framework/config/problems.h"
#include "framework/config/typed_recipe.h"
#include "parallel/mesh/layout.h"
#include "tools/plan/step_forecast.h"
#include "tools/train/recipe/layout_check.h"
#include "tools/train/recipe/schedule_check.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {

using train::Recipe;

namespace {

using pp::PipelineKind;

// Smallest number of tokens of a sequence per rank for which context parallelism is tried.
constexpr int64_t least_tokens = 2048;
// Largest power of two that is tried as the size of a micro-batch.
constexpr int64_t max_micro_batch = 8;
// Maximum number of world sizes that are tried on each side of an illegal world size.
constexpr int max_tries = 16;

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> powers;
  for (int64_t n = 1; n <= most; n *= 2) powers.push_back(n);
  return powers;
}

// Returns the number of `values` that are not in `tried`.
int64_t count_untried(const std::vector<int64_t>& values, const std::vector<int64_t>& tried) {
  return std::ranges::count_if(values, [&](int64_t v) { return std::ranges::find(tried, v) == tried.end(); });
}

// Returns the elements of `values` that divide n.
std::vector<int64_t> dividing(std::vector<int64_t> values, int64_t n) {
  std::erase_if(values, [&](int64_t v) { return n % v != 0; });
  return values;
}

// Returns the sizes of a micro-batch to try: powers of two, and the recipe's size. Sizes above 1 are tried only if the
// micro-batch has at most max_micro_batch_tokens tokens.
std::vector<int64_t> micro_batch_sizes(const Recipe& r) {
  const int64_t most = std::max<int64_t>(1, max_micro_batch_tokens / r.model.context);
  std::vector<int64_t> sizes = powers_of_two(std::min(most, max_micro_batch));
  if (r.batch.micro <= most && std::ranges::find(sizes, r.batch.micro) == sizes.end()) sizes.push_back(r.batch.micro);
  return sizes;
}

struct Pipeline {
  PipelineKind kind;
  int64_t virtual_stages;
};

// Returns the pipelines to try with `pp` stages. Every virtual stage has at least one layer.
std::vector<Pipeline> pipelines(const Recipe& r, int64_t pp) {
  if (pp == 1) return {{r.schedule.pipeline.kind, r.schedule.pipeline.virtual_stages}};
  std::vector<Pipeline> all{{PipelineKind::one_f_one_b, 2}, {PipelineKind::zb_h1, 2}};
  for (const int64_t stages : {2, 4})
    if (stages * pp <= r.model.layers) all.push_back({PipelineKind::interleaved, stages});
  return all;
}

// Returns the number of variants() of a layout with these settings.
int64_t number_of_variants(int64_t zero, layers::Recompute recompute) {
  return (zero == 1 ? 2 : 1) * (recompute == layers::Recompute::none ? 2 : 1) - 1;
}

// Collects the combinations that the rules of recipes accept.
class Collector {
 public:
  explicit Collector(LayoutRules& rules) : rules_(rules) {}

  // Adds the recipe with each of `recomputes` if the rules accept it, and counts the variants of these layouts.
  // Otherwise, counts all these combinations as refused. The rules accept either all values in `recomputes` or none.
  void add(Recipe r, std::span<const layers::Recompute> recomputes) {
    int64_t variant_count = 0;
    for (const layers::Recompute recompute : recomputes)
      variant_count += number_of_variants(r.parallel.zero, recompute);
    const int64_t count = std::ssize(recomputes) + variant_count;
    found_.tried += count;
    r.recompute = recomputes.front();
    if (const auto key = rules_.broken(r)) {
      found_.refused[*key] += count;
      return;
    }
    found_.variants += variant_count;
    for (const layers::Recompute recompute : recomputes) {
      r.recompute = recompute;
      found_.legal.push_back({r});
    }
  }

  // Counts one combination that breaks the rule of `key`. The combination represents all values of the keys that are
  // not set yet.
  void refuse(const std::string& key) { ++found_.tried, ++found_.refused[key]; }

  // Counts combinations with untried values of `key`. Each counted combination represents all values of the keys that
  // are not set yet.
  void leave_out(const std::string& key, int64_t count) {
    if (count > 0) found_.left_out[key] += count;
  }

  PlanCandidates take() { return std::move(found_); }

 private:
  LayoutRules& rules_;
  PlanCandidates found_;
};

// Enumerates the values of the keys, from the axes of dense layers to the micro-batch.
class Enumeration {
 public:
  Enumeration(const Recipe& recipe, const PlanSpace& space, Collector& collector)
      : recipe_(recipe),
        space_(space),
        collector_(collector),
        micro_batches_(micro_batch_sizes(recipe)),
        ranks_(base::divisors(space.world)),
        batches_(base::divisors(recipe.batch.global)) {}

  void run() const {
    Recipe r = recipe_;
    r.parallel.order.reset();
    r.parallel.cp_expansion = mesh::Expansion::automatic;
    r.schedule.pipeline.split.clear();
    const std::vector<int64_t> sizes =
        powers_of_two(std::min({space_.world, space_.ranks_per_domain, recipe_.model.heads}));
    leave_out_sizes("parallel.tp", sizes, recipe_.model.heads, space_.world);
    for (const int64_t tp : sizes) with_tp(r, tp);
  }

 private:
  void with_tp(Recipe& r, int64_t tp) const {
    const std::vector<int64_t> sizes =
        powers_of_two(std::clamp<int64_t>(recipe_.model.context / least_tokens, 1, space_.world / tp));
    if (space_.world % tp == 0) leave_out_sizes("parallel.cp", sizes, recipe_.model.context, space_.world / tp);
    for (const int64_t cp : sizes) {
      const std::vector<int64_t> stages = powers_of_two(std::min(space_.world / (tp * cp), recipe_.model.layers));
      if (space_.world % (tp * cp) == 0)
        leave_out_sizes("parallel.pp", stages, recipe_.model.layers, space_.world / (tp * cp));
      for (const int64_t pp : stages) with_axes(r, tp, cp, pp);
    }
  }

  // Counts the divisors of `ranks` up to `most` that are not among the tried sizes of an axis.
  void leave_out_sizes(const std::string& axis, const std::vector<int64_t>& tried, int64_t most, int64_t ranks) const {
    std::vector<int64_t> sizes = dividing(ranks_, ranks);
    std::erase_if(sizes, [&](int64_t size) { return size > most; });
    collector_.leave_out(axis, count_untried(sizes, tried));
  }

  void with_axes(Recipe& r, int64_t tp, int64_t cp, int64_t pp) const {
    if (space_.world % (tp * cp * pp) != 0) return collector_.refuse("parallel");
    r.parallel.tp = tp, r.parallel.sp = tp > 1;
    r.parallel.cp = cp, r.parallel.pp = pp;
    r.parallel.cp_kind =
        recipe_.model.key_value_heads() % (tp * cp) == 0 ? cp::ContextKind::ulysses : cp::ContextKind::ring;
    if (cp > 1) collector_.leave_out("parallel.cp_kind", std::ssize(enum_names(cp::ContextKind{})) - 1);
    const std::vector<Pipeline> tried = pipelines(recipe_, pp);
    if (pp > 1) leave_out_pipelines(pp, std::ssize(tried));
    for (const Pipeline& pipeline : tried) {
      r.schedule.pipeline.kind = pipeline.kind, r.schedule.pipeline.virtual_stages = pipeline.virtual_stages;
      with_pipeline(r);
    }
  }

  // Counts the kinds and the numbers of virtual stages that are not tried: gpipe, zb_v, dualpipe_v, and other numbers.
  // Every virtual stage has at least one layer.
  void leave_out_pipelines(int64_t pp, int64_t tried) const {
    constexpr int64_t one_stage = 2;  // 1f1b and zb_h1, the tried kinds with one stage for each rank
    const int64_t most = recipe_.model.layers / pp;
    collector_.leave_out("schedule.pipeline.kind", most >= 2 ? 3 : 1);
    collector_.leave_out("schedule.pipeline.virtual_stages", most - 1 - (tried - one_stage));
  }

  void with_pipeline(Recipe& r) const {
    const bool has_experts = recipe_.model.moe.experts > 1;
    const int64_t tp = r.parallel.tp, ranks = space_.world / r.parallel.pp;
    const std::vector<int64_t> sizes = tp > 1 && has_experts ? std::vector<int64_t>{1, tp} : std::vector<int64_t>{1};
    for (const int64_t ep : base::divisors(std::max<int64_t>(1, recipe_.model.moe.experts))) {
      if (has_experts && ranks % ep == 0)
        leave_out_sizes("parallel.etp", sizes, recipe_.model.moe.expert_hidden, ranks / ep);
      for (const int64_t etp : sizes) with_experts(r, ep, etp);
    }
  }

  void with_experts(Recipe& r, int64_t ep, int64_t etp) const {
    if (space_.world / r.parallel.pp % (ep * etp) != 0) return collector_.refuse("parallel.ep");
    r.parallel.ep = ep, r.parallel.etp = etp;
    const int64_t dp = space_.world / (r.parallel.tp * r.parallel.cp * r.parallel.pp);
    const bool divides_state = dp * r.parallel.cp > 1;
    if (divides_state) collector_.leave_out("parallel.zero", 1);
    const int64_t untried_micro = recipe_.batch.global % dp == 0
                                      ? count_untried(dividing(batches_, recipe_.batch.global / dp), micro_batches_)
                                      : 0;
    for (const int64_t zero : divides_state ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{0}) {
      r.parallel.zero = zero;
      collector_.leave_out("batch.micro", untried_micro);
      for (const int64_t micro : micro_batches_) with_batch(r, micro, dp);
    }
  }

  void with_batch(Recipe& r, int64_t micro, int64_t dp) const {
    if (recipe_.batch.global % (micro * dp) != 0) return collector_.refuse("batch.global");
    r.batch.micro = micro;
    using layers::Recompute;
    static constexpr std::array parts{Recompute::none, Recompute::attention};
    static constexpr std::array whole{Recompute::block};
    collector_.add(r, parts);
    collector_.add(r, whole);
  }

  const Recipe& recipe_;
  const PlanSpace& space_;
  Collector& collector_;
  const std::vector<int64_t> micro_batches_;    // sizes of a micro-batch to try
  const std::vector<int64_t> ranks_, batches_;  // divisors of the number of ranks, and of batch.global
};

// True if the recipe's layers exchange rows through windows (ep::AllToAll::window), but an ep group is on several
// nodes. False if `ranks_per_node` is 0 (unknown).
bool has_windows_across_nodes(const Recipe& r, int64_t world, int64_t ranks_per_node) {
  if (ranks_per_node == 0 || r.model.moe.experts == 0 || r.schedule.moe.all_to_all != ep::AllToAll::window)
    return false;
  std::vector<int> nodes;
  for (int64_t rank = 0; rank < world; ++rank) nodes.push_back(static_cast<int>(rank / ranks_per_node));
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  return !group_across_nodes(layout, base::Axis::ep, nodes).empty();
}

}  // namespace

LayoutRules::LayoutRules(const config::Document& document, const train::Extensions& extensions, int64_t world,
                         int64_t ranks_per_node)
    : extensions_(extensions), world_(world), ranks_per_node_(ranks_per_node) {
  config::read<Recipe>(document, read_);
  read_problem_count_ = read_.list().size();
}

std::optional<std::string> LayoutRules::broken(const Recipe& r) {
  read_.keep_first(read_problem_count_);
  train::check_layout(r, world_, read_);
  train::check_moe_schedule(r, extensions_, read_);
  train::check_micro_batch_overlap(r, world_, read_);
  train::check_moe_order(r, extensions_, read_);
  if (read_.list().size() == read_problem_count_) {
    if (has_windows_across_nodes(r, world_, ranks_per_node_)) return "schedule.moe.all_to_all";
    return {};
  }
  const config::Problems::Problem& first = read_.list()[read_problem_count_];
  return first.rule.empty() ? first.path : first.rule;
}

std::vector<PlanCandidate> variants(const PlanCandidate& layout) {
  using layers::Recompute;
  const Recipe& r = layout.recipe;
  std::vector<PlanCandidate> all;
  for (const bool zero_2 : {false, true})
    for (const bool norms : {false, true}) {
      if (!(zero_2 || norms) || (zero_2 && r.parallel.zero != 1) || (norms && r.recompute != Recompute::none)) continue;
      Recipe& v = all.emplace_back(layout).recipe;
      if (zero_2) v.parallel.zero = 2;
      if (norms) v.recompute = Recompute::norms;
    }
  return all;
}

PlanCandidate without_variant(PlanCandidate layout) {
  Recipe& r = layout.recipe;
  if (r.parallel.zero == 2) r.parallel.zero = 1;
  if (r.recompute == layers::Recompute::norms) r.recompute = layers::Recompute::none;
  return layout;
}

PlanCandidates plan_candidates(const config::Document& document, const Recipe& recipe,
                               const train::Extensions& extensions, const PlanSpace& space) {
  LayoutRules rules(document, extensions, space.world, space.ranks_per_node);
  Collector collector(rules);
  Enumeration(recipe, space, collector).run();
  return collector.take();
}

NearestRanks nearest_legal_ranks(const config::Document& document, const Recipe& recipe,
                                 const train::Extensions& extensions, const PlanSpace& space, int64_t most) {
  std::set<int64_t> numbers;
  for (const int64_t dp : base::divisors(recipe.batch.global))
    for (int64_t n = dp; n <= most; n *= 2) numbers.insert(n);
  const auto first_legal = [&](auto begin, auto end) -> std::optional<int64_t> {
    for (int tries = 0; tries < max_tries && begin != end; ++tries, ++begin) {
      const PlanSpace there{
          .world = *begin, .ranks_per_domain = space.ranks_per_domain, .ranks_per_node = space.ranks_per_node};
      if (!plan_candidates(document, recipe, extensions, there).legal.empty()) return *begin;
    }
    return {};
  };
  const auto at = numbers.lower_bound(space.world);
  return {.below = first_legal(std::make_reverse_iterator(at), numbers.rend()),
          .above = first_legal(numbers.upper_bound(space.world), numbers.end())};
}

std::vector<std::pair<std::string, std::string>> PlanCandidate::settings() const {
  static constexpr auto planned = std::to_array<std::string_view>({
      "parallel.pp",
      "parallel.tp",
      "parallel.sp",
      "parallel.cp",
      "parallel.cp_kind",
      "parallel.cp_expansion",
      "parallel.order",
      "parallel.ep",
      "parallel.etp",
      "parallel.zero",
      "batch.micro",
      "recompute",
      "offload.activations",
      "offload.optimizer",
      "schedule.pipeline.kind",
      "schedule.pipeline.virtual_stages",
      "schedule.pipeline.split",
      "schedule.pipeline.overlap",
      "schedule.moe.duplicates",
      "schedule.moe.overlap",
      "schedule.moe.chunk_by",
      "schedule.moe.chunks",
      "schedule.moe.esp_exchange",
      "schedule.moe.rows",
      "schedule.moe.memory_reuse",
      "schedule.moe.order",
      "distributed.bucket_bytes",
  });
  std::vector<std::pair<std::string, std::string>> all;
  for (config::Setting& s : config::settings(recipe)) {
    if (std::ranges::find(planned, s.path) == planned.end()) continue;
    if (recipe.model.moe.experts > 0 || !s.path.starts_with("schedule.moe."))
      all.emplace_back(std::move(s.path), std::move(s.value));
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> PlanCandidate::effective_settings(int64_t world) const {
  const train::ParallelConfig& p = recipe.parallel;
  const bool experts = recipe.model.moe.experts > 0, pipeline = p.pp > 1;
  const mesh::Layout layout(p.sizes(), static_cast<int>(world));
  const int ep = layout.size(base::Axis::ep), etp = layout.size(base::Axis::etp);
  const std::map<std::string_view, bool> effect{
      {"parallel.sp", p.tp > 1},
      {"parallel.cp_kind", p.cp > 1},
      {"parallel.cp_expansion", !p.order && p.tp % (ep * etp) != 0 && p.cp * p.pp > 1},
      {"parallel.order", world > 1},
      {"parallel.ep", experts},
      {"parallel.etp", experts && (p.tp > 1 || etp > 1)},
      {"parallel.zero", world > p.pp},
      {"schedule.pipeline.split", pipeline && !recipe.schedule.pipeline.split.empty()},
      {"schedule.pipeline.kind", pipeline},
      {"schedule.pipeline.virtual_stages", pipeline && recipe.schedule.pipeline.kind == PipelineKind::interleaved},
      {"distributed.bucket_bytes", recipe.distributed.bucket_bytes.has_value()}};
  std::vector<std::pair<std::string, std::string>> effective;
  for (auto& [key, value] : settings()) {
    if (const auto found = effect.find(key); found != effect.end() && !found->second) continue;
    if (key == "parallel.cp_expansion") value = base::enum_name(layout.expansion());
    if (key == "parallel.etp") value = std::to_string(etp);
    effective.emplace_back(std::move(key), std::move(value));
  }
  return effective;
}

std::vector<ChangedSetting> changed_settings(const PlanCandidate& from, const PlanCandidate& to, int64_t world) {
  const auto values = [&](const PlanCandidate& c) {
    const auto settings = c.effective_settings(world);
    return std::map<std::string, std::string>(settings.begin(), settings.end());
  };
  const auto a = values(from), b = values(to);
  const auto value_in = [](const std::map<std::string, std::string>& map, const std::string& key) {
    const auto found = map.find(key);
    return found == map.end() ? "-" : found->second;
  };
  std::vector<ChangedSetting> changed;
  for (const auto& [key, unused] : from.settings())
    if (ChangedSetting c{key, value_in(a, key), value_in(b, key)}; c.from != c.to) changed.push_back(std::move(c));
  return changed;
}

std::string PlanCandidate::to_string(int64_t world) const {
  const train::ParallelConfig& p = recipe.parallel;
  std::string text = fmt::format("dp {}", world / (p.pp * p.cp * p.tp));
  if (p.tp > 1) text += fmt::format(", tp {}", p.tp);
  if (p.cp > 1) text += fmt::format(", cp {} {}", p.cp, base::enum_name(p.cp_kind));
  if (p.pp > 1)
    text += fmt::format(", pp {} {}{}", p.pp, base::enum_name(recipe.schedule.pipeline.kind),
                        recipe.schedule.pipeline.kind == PipelineKind::interleaved
                            ? fmt::format(" x {}", recipe.schedule.pipeline.virtual_stages)
                            : "");
  if (p.ep > 1) text += fmt::format(", ep {}", p.ep);
  if (const int64_t etp = p.etp.value_or(p.tp); p.tp > 1 && etp > 1) text += fmt::format(", etp {}", etp);
  text += fmt::format(", zero {}, micro {}", p.zero, recipe.batch.micro);
  if (recipe.recompute != layers::Recompute::none)
    text += fmt::format(", recompute {}", base::enum_name(recipe.recompute));
  if (p.cp_expansion != mesh::Expansion::automatic)
    text += fmt::format(", expansion {}", base::enum_name(p.cp_expansion));
  if (p.order) text += ", order " + *p.order;
  if (recipe.offload.optimizer != optim::StateOffload::none) text += ", offload optimizer";
  if (recipe.offload.activations) text += ", offload activations";
  if (recipe.schedule.pipeline.overlap != pp::Overlap::none) text += ", overlap micro_batches";
  if (recipe.model.moe.experts == 0) return text;
  const std::string choices = moe::unusual_choices(recipe.schedule.moe.settled());
  return choices.empty() ? text : text + ", " + choices;
}

}  // namespace hexad::plan
