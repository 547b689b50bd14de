#include "tools/plan/routing_model.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::plan {
namespace {

using Choice = device::MetaRun::Choice;

// Returns an upper bound of the number of a token's experts on a rank with `local` experts. The token chooses experts
// of at most c.top_groups groups. Does not consider c.top_k, which the callers apply.
int64_t max_of_token(int64_t local, const Choice& c) { return std::min(local, c.top_groups * (c.experts / c.groups)); }

// Returns P(Beta(n, m) <= x) for integers n and m: the probability that at least n of n + m - 1 draws, uniform between
// 0 and 1, are below x.
double beta_distribution(int64_t n, int64_t m, double x) {
  const int64_t draws = n + m - 1;
  double sum = 0;
  for (int64_t k = n; k <= draws; ++k)
    sum += std::exp(std::lgamma(static_cast<double>(draws + 1)) - std::lgamma(static_cast<double>(k + 1)) -
                    std::lgamma(static_cast<double>(draws - k + 1)) + static_cast<double>(k) * std::log(x) +
                    static_cast<double>(draws - k) * std::log1p(-x));
  return sum;
}

double beta_quantile(int64_t n, int64_t m, double probability) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (beta_distribution(n, m, middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

// Draws numbers in rounds. Each round contains every number once, in a new order.
class Rounds {
 public:
  Rounds(std::vector<int32_t> numbers, uint64_t seed)
      : random_(seed, base::Purpose::route), order_(std::move(numbers)), next_(order_.size()) {}

  /// Returns a number that is not in `taken`; none if all numbers are taken.
  std::optional<int32_t> draw(std::span<const int32_t> taken) {
    if (next_ == order_.size()) {
      for (size_t n = order_.size(); n > 1; --n) std::swap(order_[n - 1], order_[random_.below(draws_++, n)]);
      next_ = 0;
    }
    // Shortly after the start of a round, a token may already have a number that is drawn again.
    for (size_t i = next_; i < order_.size(); ++i)
      if (std::ranges::find(taken, order_[i]) == taken.end()) {
        std::swap(order_[i], order_[next_]);
        return order_[next_++];
      }
    for (size_t i = 0; i < next_; ++i)
      if (std::ranges::find(taken, order_[i]) == taken.end()) return order_[i];
    return {};
  }

 private:
  base::Philox random_;
  uint64_t draws_ = 0;
  std::vector<int32_t> order_;
  size_t next_;
};

// Experts of the chosen rank and of the other ranks, by group, and the groups that contain experts of the chosen rank.
class Experts {
 public:
  // A negative `rank` means that no rank is chosen.
  Experts(const Choice& c, int rank, int64_t local) : near_({}, 0), far_({}, 0) {
    const int64_t size = c.experts / c.groups;
    std::vector<int32_t> near, far;
    for (int64_t g = 0; g < c.groups; ++g) {
      std::vector<int32_t> own, others;
      for (int64_t e = g * size; e < (g + 1) * size; ++e)
        (e / local == rank ? own : others).push_back(static_cast<int32_t>(e));
      (own.empty() ? far : near).push_back(static_cast<int32_t>(g));
      const auto seed = static_cast<uint64_t>(2 * g);
      here_.emplace_back(std::move(own), seed + 1), elsewhere_.emplace_back(std::move(others), seed + 2);
    }
    const auto seed = static_cast<uint64_t>(2 * c.groups);
    near_ = Rounds(std::move(near), seed + 1), far_ = Rounds(std::move(far), seed + 2);
  }

  /// Draws a token's experts, alternating between the token's groups. `to_rank` of the experts are on the chosen rank
  /// if the groups have enough experts there and on the other ranks.
  void draw(std::span<int32_t> ids, int64_t to_rank, int64_t top_groups) {
    std::vector<int32_t> groups;
    while (std::ssize(groups) < top_groups)
      groups.push_back(either(to_rank > 0 ? near_ : far_, to_rank > 0 ? far_ : near_, groups));
    for (size_t k = 0; k < ids.size(); ++k) {
      const bool here = static_cast<int64_t>(k) < to_rank;
      const auto taken = ids.first(k);
      auto id = from(here ? here_ : elsewhere_, groups, k, taken);
      if (!id) id = from(here ? elsewhere_ : here_, groups, k, taken);
      base::require(id.has_value(), "[routing model] a token chooses ", ids.size(),
                    " experts, but its groups have only ", k, "; expected at most ", k);
      ids[k] = *id;
    }
  }

 private:
  static int32_t either(Rounds& first, Rounds& second, std::span<const int32_t> taken) {
    auto group = first.draw(taken);
    if (!group) group = second.draw(taken);
    base::require(group.has_value(), "[routing model] a token chooses more than ", taken.size(),
                  " groups; expected at most ", taken.size(), ", the number of existing groups");
    return *group;
  }
  static std::optional<int32_t> from(std::vector<Rounds>& experts, const std::vector<int32_t>& groups, size_t turn,
                                     std::span<const int32_t> taken) {
    for (size_t i = 0; i < groups.size(); ++i)
      if (const auto id = experts[groups[(turn + i) % groups.size()]].draw(taken)) return id;
    return {};
  }

  std::vector<Rounds> here_, elsewhere_;  // experts of each group: on the chosen rank, and on the other ranks
  Rounds near_, far_;                     // groups with experts of the chosen rank, and groups without them
};

// Router for one rank and one kind of load. Makes the same choices for all micro-batches and layers of the same shape.
class Router {
 public:
  Router(RoutingLoad::Kind load, int rank, int ranks, std::optional<double> capacity_factor)
      : load_(load), rank_(rank), ranks_(ranks), capacity_factor_(capacity_factor) {}

  void operator()(std::span<int32_t> ids, Choice choice) {
    // Keeps the recipe's own routing if no other load is requested.
    if (choice.given && load_ == RoutingLoad::even) return;
    choice.layer = -1;
    const auto known = std::ranges::find_if(
        chosen_, [&](const Chosen& c) { return c.ids.size() == ids.size() && c.choice == choice; });
    const Chosen& chosen =
        known != chosen_.end() ? *known : chosen_.emplace_back(Chosen{choice, choose(ids.size(), choice)});
    std::ranges::copy(chosen.ids, ids.begin());
  }

 private:
  struct Chosen {
    Choice choice;
    std::vector<int32_t> ids;
  };

  std::vector<int32_t> choose(size_t slots, const Choice& choice) const {
    std::vector<int32_t> ids(slots);
    const int64_t top_k = choice.top_k, local = choice.experts / ranks_;
    const int64_t tokens = static_cast<int64_t>(slots) / top_k;
    const double share = share_of_rank(load_, local, choice, capacity_factor_);
    const bool even = load_ == RoutingLoad::even;
    Experts experts(choice, even ? -1 : rank_, local);
    const int64_t most = even ? 0 : std::min(top_k, max_of_token(local, choice));
    int64_t given = 0;  // slots assigned to this rank so far
    for (int64_t t = 0; t < tokens; ++t) {
      const std::span<int32_t> mine = std::span(ids).subspan(t * top_k, top_k);
      const int64_t wanted = std::llround(share * static_cast<double>((t + 1) * top_k)) - given;
      experts.draw(mine, std::clamp<int64_t>(wanted, 0, most), choice.top_groups);
      given += std::ranges::count(mine, rank_, [&](int32_t e) { return e / local; });
    }
    return ids;
  }

  RoutingLoad::Kind load_;
  int rank_, ranks_;
  std::optional<double> capacity_factor_;
  std::vector<Chosen> chosen_;
};

// Router for given shares. Makes the same choices in all micro-batches of equal shape for a layer.
class GivenRouter {
 public:
  explicit GivenRouter(RoutingLoad load) : load_(std::move(load)) {}

  void operator()(std::span<int32_t> ids, const Choice& choice) {
    const std::vector<double>& shares = shares_of(choice);
    std::vector<int32_t>& chosen = chosen_[{choice.layer, choice.top_k, ids.size()}];
    if (chosen.empty()) chosen = choose(shares, static_cast<int64_t>(ids.size()), choice.top_k);
    std::ranges::copy(chosen, ids.begin());
  }

 private:
  // Returns the shares of choice.layer, or the shares of layer 0 if the layer is unknown (-1). Calls of router kernels
  // do not state the layer, but MoeLayer later replaces the experts that these kernels choose.
  const std::vector<double>& shares_of(const Choice& choice) const {
    const std::vector<double>& shares = load_.shares().at(std::max<int64_t>(0, choice.layer));
    base::require(std::ssize(shares) == choice.experts, "[routing model] ", shares.size(), " shares are given for ",
                  choice.experts, " experts; expected one share for each expert");
    return shares;
  }

  // Chooses experts for all tokens. Each token visits the experts that are furthest behind their shares.
  static std::vector<int32_t> choose(const std::vector<double>& shares, int64_t slots, int64_t top_k) {
    std::vector<double> owed(shares.size(), 0);
    std::vector<int32_t> order(shares.size());
    std::vector<int32_t> chosen;
    chosen.reserve(slots);
    for (int64_t token = 0; token < slots / top_k; ++token) {
      for (size_t e = 0; e < shares.size(); ++e) owed[e] += shares[e] * static_cast<double>(top_k);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::partial_sort(order, order.begin() + top_k, std::greater{},
                                [&](int32_t e) { return std::pair(owed[e], -e); });
      for (int64_t k = 0; k < top_k; ++k) {
        owed[order[k]] -= 1;
        chosen.push_back(order[k]);
      }
    }
    return chosen;
  }

  RoutingLoad load_;
  std::map<std::tuple<int64_t, int64_t, size_t>, std::vector<int32_t>>
      chosen_;  // chosen experts, by layer, top_k and slots
};

}  // namespace

double share_of_rank(RoutingLoad::Kind load, int64_t local, const Choice& choice,
                     std::optional<double> capacity_factor) {
  const double even = static_cast<double>(local) / static_cast<double>(choice.experts);
  if (local == choice.experts || load == RoutingLoad::even) return even;
  double most = std::min(1.0, static_cast<double>(max_of_token(local, choice)) / static_cast<double>(choice.top_k));
  if (capacity_factor) most = std::min(most, even * std::max(1.0, *capacity_factor));
  if (load == RoutingLoad::one_rank) return most;
  return std::min(most, std::max(even, beta_quantile(local, choice.experts - local, 0.99)));
}

std::vector<double> slots_of_ranks(const std::vector<double>& shares, int ranks) {
  std::vector<double> slots(ranks, 0);
  for (size_t e = 0; e < shares.size(); ++e) slots[e * slots.size() / shares.size()] += shares[e];
  return slots;
}

int busiest_rank(const RoutingLoad& load, int ranks) {
  if (load != RoutingLoad::given) return 0;
  std::vector<double> slots(ranks, 0);
  for (const std::vector<double>& shares : load.shares())
    std::ranges::transform(slots, slots_of_ranks(shares, ranks), slots.begin(), std::plus{});
  return static_cast<int>(std::ranges::max_element(slots) - slots.begin());
}

RoutingLoad with_stragglers(RoutingLoad load, int ranks) {
  if (load != RoutingLoad::given) return load;
  const int recorded = busiest_rank(load, ranks);
  ExpertShares layers = load.shares();
  for (std::vector<double>& shares : layers) {
    const std::vector<double> slots = slots_of_ranks(shares, ranks);
    const auto most = std::ranges::max_element(slots) - slots.begin();
    if (slots[most] <= slots[recorded]) continue;
    const auto local = std::ssize(shares) / ranks;
    std::swap_ranges(shares.begin() + most * local, shares.begin() + (most + 1) * local,
                     shares.begin() + recorded * local);
  }
  return RoutingLoad(std::move(layers));
}

RoutingLoad mean_layer(RoutingLoad load) {
  if (load != RoutingLoad::given) return load;
  const ExpertShares& layers = load.shares();
  std::vector<double> mean(layers.front().size(), 0);
  for (const std::vector<double>& shares : layers)
    for (size_t e = 0; e < mean.size(); ++e) mean[e] += shares[e] / static_cast<double>(layers.size());
  return RoutingLoad(ExpertShares(layers.size(), mean));
}

device::MetaRun::Choose choose_experts(RoutingLoad load, int rank, int ranks, std::optional<double> capacity_factor) {
  if (load == RoutingLoad::given) return GivenRouter(std::move(load));
  return Router(load.kind(), rank, ranks, capacity_factor);
}

}  // namespace hexad::plan
