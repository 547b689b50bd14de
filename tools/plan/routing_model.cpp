#include "tools/plan/routing_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/philox.h"

namespace hexad::plan {
namespace {

// P(Beta(n, m) <= x) for whole numbers: that of n + m - 1 draws at least n are below x.
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

// Experts, one after another in rounds of which each has all of them once, in another order.
class Rounds {
 public:
  Rounds(std::vector<int32_t> experts, uint64_t seed)
      : random_(seed, base::Purpose::route), order_(std::move(experts)), next_(order_.size()) {}

  /// One that is not in `taken`.
  int32_t draw(std::span<const int32_t> taken) {
    if (next_ == order_.size()) {
      for (size_t n = order_.size(); n > 1; --n) std::swap(order_[n - 1], order_[random_.below(draws_++, n)]);
      next_ = 0;
    }
    // At a round's begin a token may have one of it already.
    for (size_t i = next_; i < order_.size(); ++i)
      if (std::ranges::find(taken, order_[i]) == taken.end()) {
        std::swap(order_[i], order_[next_]);
        return order_[next_++];
      }
    for (size_t i = 0; i < next_; ++i)
      if (std::ranges::find(taken, order_[i]) == taken.end()) return order_[i];
    base::fail_invariant("[routing model] a token chooses more experts than there are");
  }

 private:
  base::Philox random_;
  uint64_t draws_ = 0;
  std::vector<int32_t> order_;
  size_t next_;
};

// Of one rank and load: all micro-batches and layers of a shape choose alike.
class Router {
 public:
  Router(RoutingLoad load, int rank, int ranks, std::optional<double> capacity_factor)
      : load_(load), rank_(rank), ranks_(ranks), capacity_factor_(capacity_factor) {}

  void operator()(std::span<int32_t> ids, int64_t top_k, int64_t experts) {
    if (chosen_.size() != ids.size() || top_k != top_k_ || experts != experts_) {
      chosen_.resize(ids.size());
      top_k_ = top_k, experts_ = experts;
      choose();
    }
    std::ranges::copy(chosen_, ids.begin());
  }

 private:
  void choose() {
    const int64_t local = experts_ / ranks_, tokens = static_cast<int64_t>(chosen_.size()) / top_k_;
    const double share = share_of_rank(load_, local, experts_, top_k_, capacity_factor_);
    std::vector<int32_t> own, others;
    for (int64_t e = 0; e < experts_; ++e) (e / local == rank_ ? own : others).push_back(static_cast<int32_t>(e));
    if (load_ == RoutingLoad::even) others.insert(others.end(), own.begin(), own.end());
    const auto fewest = std::max<int64_t>(0, top_k_ - static_cast<int64_t>(others.size())),
               most = load_ == RoutingLoad::even ? 0 : std::min(local, top_k_);
    Rounds here(std::move(own), 1), elsewhere(std::move(others), 2);
    int64_t given = 0;  // to this rank
    for (int64_t t = 0; t < tokens; ++t) {
      const std::span<int32_t> mine =
          std::span(chosen_).subspan(static_cast<size_t>(t * top_k_), static_cast<size_t>(top_k_));
      const int64_t wanted = std::llround(share * static_cast<double>((t + 1) * top_k_)) - given;
      const int64_t to_rank = std::clamp(wanted, fewest, std::max(fewest, most));
      for (int64_t k = 0; k < top_k_; ++k) {
        const auto at = static_cast<size_t>(k);
        mine[at] = (k < to_rank ? here : elsewhere).draw(mine.first(at));
      }
      given += to_rank;
    }
  }

  RoutingLoad load_;
  int rank_, ranks_;
  std::optional<double> capacity_factor_;
  int64_t top_k_ = 0, experts_ = 0;
  std::vector<int32_t> chosen_;
};

}  // namespace

double share_of_rank(RoutingLoad load, int64_t local, int64_t experts, int64_t top_k,
                     std::optional<double> capacity_factor) {
  const double even = static_cast<double>(local) / static_cast<double>(experts);
  if (local == experts || load == RoutingLoad::even) return even;
  double most = std::min(1.0, static_cast<double>(local) / static_cast<double>(top_k));
  if (capacity_factor) most = std::min(most, even * std::max(1.0, *capacity_factor));
  if (load == RoutingLoad::one_rank) return most;
  return std::min(most, std::max(even, beta_quantile(local, experts - local, 0.99)));
}

device::MetaRun::Choose choose_experts(RoutingLoad load, int rank, int ranks, std::optional<double> capacity_factor) {
  return Router(load, rank, ranks, capacity_factor);
}

}  // namespace hexad::plan
