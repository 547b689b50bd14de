#include "tools/plan/composed_layouts.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "layers/recompute_config.h"
#include "tools/plan/number.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {
namespace {

using layers::Recompute;

// A layout is excluded if the composed estimate of the same layout with more recomputation exceeds this multiple of the
// limit. With less recomputation, a layout keeps more tensors. It saves only the tensors that one recomputation holds
// at a time, which are small compared with the margin.
constexpr double error_of_less_recomputation = 1.25;
// A layout certainly fits if this multiple of its composed estimate fits.
constexpr double certainly_fits = 1.25;
// A layout is not tried with offload if its composed estimate exceeds this multiple of the limit. Offload of the
// optimizer's state saves at most about two thirds of the memory: in bf16, 12 of the 18 bytes of a parameter.
constexpr double offloaded_reach = 3;

// Settings of a layout, except recomputation.
using Settings = std::array<int64_t, 10>;

Settings settings_beside_recomputation(const train::Recipe& r) {
  const train::ParallelConfig& p = r.parallel;
  const pp::PipelineConfig pipeline = train::pipeline_of(r);
  return {p.tp,
          p.cp,
          static_cast<int64_t>(p.cp_kind),
          p.pp,
          static_cast<int64_t>(pipeline.kind),
          pipeline.virtual_stages,
          p.ep,
          p.etp.value_or(p.tp),
          p.zero,
          r.batch.micro};
}

// Least number of layouts that a search for the least memory keeps, because refinement starts from several layouts.
constexpr size_t fewest_wanted = 8;

// Limit of the memory of layouts that the search keeps under Objective::memory. The limit is the n-th smallest memory
// composed so far if the search keeps n layouts. Other objectives have no limit.
class WantedMemory {
 public:
  explicit WantedMemory(const PlanRequest& request)
      : layouts_(request.objective == Objective::memory ? std::max(fewest_wanted, simulated_per_wanted * request.wanted)
                                                        : 0) {}

  void add(double bytes) {
    if (layouts_ == 0) return;
    least_.insert(bytes);
    if (least_.size() > layouts_) least_.erase(std::prev(least_.end()));
  }
  double limit() const {
    return layouts_ > 0 && least_.size() == layouts_ ? *least_.rbegin() : std::numeric_limits<double>::infinity();
  }

 private:
  const size_t layouts_;
  std::multiset<double> least_;
};

// Returns the approximate bytes of activations that a rank keeps without recomputation. The formula is by Korthikanti
// et al. 2022, with sequence parallelism. Assumes a full pipeline, which keeps pp micro-batches of layers / pp layers.
double rough_activations(const train::Recipe& r) {
  const double tokens = number(r.batch.micro * r.model.context) / number(r.parallel.tp * r.parallel.cp);
  return 34 * tokens * number(r.model.hidden) * number(r.model.layers);
}

void sort_best_first(std::vector<PlannedLayout>& layouts, Objective objective) {
  std::ranges::stable_sort(
      layouts, {}, [&](const PlannedLayout& l) { return goal(objective, l.composed.seconds, l.composed.memory); });
}

class Composition {
 public:
  Composition(std::vector<PlanCandidate> legal, const StateBound& state, LayerCosts& costs, double memory,
              const PlanRequest& request)
      : legal_(std::move(legal)),
        state_(state),
        costs_(costs),
        memory_(memory),
        request_(request),
        by_memory_(request.objective == Objective::memory),
        wanted_(request),
        composed_(legal_.size()) {
    for (size_t i = 0; i < legal_.size(); ++i) add_to_group(i);
  }

  ComposedLayouts run() {
    compose_from(0);
    const size_t variants_begin = legal_.size();
    add_variants();
    compose_from(variants_begin);
    // Sorts the indices of the recipes, and moves each recipe only once, because recipes are large.
    std::vector<size_t> promising, too_large;
    for (size_t i = 0; i < legal_.size(); ++i) {
      if (is_needless(i))
        layouts_.needless.push_back(std::move(legal_[i]));
      else if (composed_[i])
        (composed_[i]->memory <= composed_error * memory_ ? promising : too_large).push_back(i);
    }
    std::ranges::stable_sort(
        promising, {}, [&](size_t i) { return goal(request_.objective, composed_[i]->seconds, composed_[i]->memory); });
    const auto take = [&](std::vector<PlannedLayout>& layouts, const std::vector<size_t>& numbers) {
      layouts.reserve(numbers.size());
      for (const size_t i : numbers) layouts.push_back({.candidate = std::move(legal_[i]), .composed = *composed_[i]});
    };
    take(layouts_.promising, promising), take(layouts_.too_large, too_large);
    return std::move(layouts_);
  }

 private:
  // Layouts that differ only in recomputation.
  struct Group {
    double state;  // lower bound of a rank's bytes
    std::vector<size_t> layouts{};
    // enough: the least recomputation with which the layout certainly fits. too_little: the most recomputation with
    // which the layout is far too large.
    std::optional<Recompute> enough{}, too_little{};
    std::optional<size_t> with_zero_1{};  // index of the group with zero 1 and otherwise equal settings; set for zero 2
    bool is_slow = false;                 // true: a layout is needless, or takes at least seconds_to_undercut()
    // true: a layout of the group needs far more memory than wanted_.limit(), so the remaining layouts of the group are
    // not composed.
    bool unwanted = false;
  };

  Recompute recompute(size_t i) const { return legal_[i].recipe.recompute; }
  bool is_needless(size_t i) const {
    const Group& group = groups_[group_of_[i]];
    if (group.with_zero_1) {
      const std::optional<Recompute>& with_zero_1 = groups_[*group.with_zero_1].enough;
      if (with_zero_1 && recompute(i) >= *with_zero_1) return true;
    }
    return group.enough && recompute(i) > *group.enough;
  }

  void add_to_group(size_t i) {
    const train::Recipe& r = legal_[i].recipe;
    const auto [at, is_new] = known_groups_.try_emplace(settings_beside_recomputation(r), groups_.size());
    if (is_new) groups_.push_back({.state = state_.layout_bytes(r, request_.world)});
    groups_[at->second].layouts.push_back(i);
    group_of_.push_back(at->second);
  }

  // True if more recomputation in layout `i` certainly makes the step longer, and if time matters. Time does not matter
  // under Objective::memory. Less recomputation offloads more, and may take longer, if activations are offloaded.
  bool recomputation_is_slower(size_t i) const { return !by_memory_ && !legal_[i].recipe.offload.activations; }

  std::vector<size_t> most_recomputation_first(size_t begin) const {
    std::vector<size_t> order(legal_.size() - begin);
    std::iota(order.begin(), order.end(), begin);
    std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return recompute(i); });
    return order;
  }

  // Returns the layouts from `begin` on, group by group. A group begins with its layout with the least recomputation if
  // this layout seems to fit. Otherwise, the group begins with its layout with the most recomputation. In both cases,
  // the first layout often makes it unnecessary to compose the others.
  std::vector<size_t> same_settings_together(size_t begin) const {
    std::vector<size_t> order;
    for (const Group& group : groups_) {
      std::vector<size_t> layouts = group.layouts;
      std::erase_if(layouts, [&](size_t i) { return i < begin; });
      if (layouts.empty()) continue;
      std::ranges::stable_sort(layouts, {}, [&](size_t i) { return recompute(i); });
      if (group.state + rough_activations(legal_[layouts.front()].recipe) > memory_) std::ranges::reverse(layouts);
      order.insert(order.end(), layouts.begin(), layouts.end());
    }
    return order;
  }

  // Composes the layouts from `begin` on.
  void compose_from(size_t begin) {
    for (const size_t i : by_memory_ ? most_recomputation_first(begin) : same_settings_together(begin)) compose(i);
  }

  // Returns the seconds of a composed step below which a layout is simulated. Returns none if there are too few layouts
  // so far, and under Objective::memory.
  std::optional<double> seconds_to_undercut() const {
    const size_t wanted = simulated_per_wanted * request_.wanted;
    std::vector<double> seconds;
    for (size_t i = 0; i < composed_.size() && !by_memory_; ++i)
      if (composed_[i] && !is_needless(i) && composed_[i]->memory <= composed_error * memory_)
        seconds.push_back(composed_[i]->seconds);
    if (wanted == 0 || seconds.size() < wanted) return {};
    std::ranges::sort(seconds);
    return seconds[wanted - 1];
  }

  // Adds the variants of the layouts. These variants are only counted:
  // - variants that are certainly too large
  // - needless variants, if seconds_to_undercut() has a value. The layout of such a variant certainly fits, or is too
  //   slow. A variant is never faster than its layout if activations are not offloaded
  // Under Objective::memory, variants that certainly need more memory than wanted_.limit() are omitted.
  void add_variants() {
    const std::optional<double> longest = seconds_to_undercut();
    const size_t layouts = legal_.size();
    for (size_t i = 0; i < layouts; ++i) {
      std::optional<bool> is_slow;  // empty until it is needed
      for (PlanCandidate& variant : variants(legal_[i])) {
        if (const std::optional<double> state = state_if_too_large(i, variant.recipe)) {
          count_too_large(*state);
          continue;
        }
        if (by_memory_ && is_unwanted(i, variant.recipe)) continue;
        if (longest && recomputation_is_slower(i)) {
          if (!is_slow) {
            // The layouts of this group with more recomputation follow in legal_, and are slower.
            bool& group_is_slow = groups_[group_of_[i]].is_slow;
            group_is_slow = group_is_slow || is_needless(i) || seconds_of(i) >= *longest;
            is_slow = group_is_slow;
          }
          const std::optional<Recompute> enough = groups_[group_of_[i]].enough;
          if (*is_slow || (enough && variant.recipe.recompute >= *enough)) {
            ++layouts_.needless_variants;
            continue;
          }
        }
        const bool has_zero_2 = !has_zero_of(i, variant.recipe);
        legal_.push_back(std::move(variant)), composed_.emplace_back();
        add_to_group(legal_.size() - 1);
        if (has_zero_2) groups_[group_of_.back()].with_zero_1 = group_of_[i];
      }
    }
  }

  bool has_zero_of(size_t i, const train::Recipe& variant) const {
    return variant.parallel.zero == legal_[i].recipe.parallel.zero;
  }
  double seconds_of(size_t i) { return composed_[i] ? composed_[i]->seconds : costs_.seconds(legal_[i]); }

  // Returns a lower bound of the bytes of a variant of layout `i`. Returns none unless the variant is certainly too
  // large.
  std::optional<double> state_if_too_large(size_t i, const train::Recipe& variant) const {
    const double state = state_.layout_bytes(variant, request_.world);
    const Group& group = groups_[group_of_[i]];
    if (state > memory_ || (has_zero_of(i, variant) && group.too_little && variant.recompute < *group.too_little))
      return state;
    return {};
  }

  // True if a variant of layout `i` certainly needs more memory than wanted_.limit(). Requires Objective::memory.
  bool is_unwanted(size_t i, const train::Recipe& variant) const {
    return (has_zero_of(i, variant) && groups_[group_of_[i]].unwanted) ||
           state_.layout_bytes(variant, request_.world) > composed_error * wanted_.limit();
  }

  void count_too_large(double bytes) {
    ++layouts_.too_large_count;
    if (bytes > memory_) layouts_.least_memory = std::min(layouts_.least_memory, bytes);
  }

  void compose(size_t i) {
    Group& group = groups_[group_of_[i]];
    if (group.state > memory_ || (group.too_little && recompute(i) < *group.too_little))
      return count_too_large(group.state);
    if (is_needless(i) || group.unwanted || group.state > composed_error * wanted_.limit()) return;
    const double bytes = costs_.memory(legal_[i]);
    wanted_.add(bytes);
    if (bytes > error_of_less_recomputation * wanted_.limit()) group.unwanted = true;
    if (recomputation_is_slower(i) && certainly_fits * bytes <= memory_)
      group.enough = std::min(group.enough.value_or(recompute(i)), recompute(i));
    if (bytes <= offloaded_reach * memory_) composed_[i] = costs_.step(legal_[i]);
    if (bytes <= composed_error * memory_) return;
    if (bytes > error_of_less_recomputation * memory_)
      group.too_little = std::max(group.too_little.value_or(recompute(i)), recompute(i));
    count_too_large(bytes);
  }

  std::vector<PlanCandidate> legal_;
  const StateBound& state_;
  LayerCosts& costs_;
  const double memory_;
  const PlanRequest& request_;
  const bool by_memory_;
  WantedMemory wanted_;
  std::vector<Group> groups_;
  std::map<Settings, size_t> known_groups_;            // indices into groups_, by settings
  std::vector<size_t> group_of_;                       // index into groups_, by layout
  std::vector<std::optional<ComposedStep>> composed_;  // by layout; set if the layout may fit
  ComposedLayouts layouts_;
};

}  // namespace

ComposedLayouts compose_layouts(std::vector<PlanCandidate> legal, const StateBound& state, LayerCosts& costs,
                                double memory, const PlanRequest& request) {
  return Composition(std::move(legal), state, costs, memory, request).run();
}

std::vector<PlannedLayout> compose_all(std::vector<PlanCandidate> candidates, LayerCosts& costs, Objective objective) {
  std::vector<PlannedLayout> layouts;
  for (PlanCandidate& c : candidates) {
    const ComposedStep composed = costs.step(c);
    layouts.push_back({.candidate = std::move(c), .composed = composed});
  }
  sort_best_first(layouts, objective);
  return layouts;
}

}  // namespace hexad::plan
