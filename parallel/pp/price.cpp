#include "parallel/pp/price.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "framework/base/error.h"
#include "parallel/pp/dependencies.h"

namespace hexad::pp {
namespace {

using base::cat;
using base::require;

class Simulation {
 public:
  Simulation(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options)
      : schedule_(schedule), times_(times), options_(options), next_(schedule.ranks.size()), free_(next_.size()) {
    require(static_cast<int>(times.size()) == schedule.stages.stages(), "[pp] times of ", times.size(), " of ",
            schedule.stages.stages(), " virtual stages");
    price_.busy.resize(next_.size());
    price_.spans.resize(next_.size());
  }

  Price run() {
    // A rank goes on as far as it can; its peers then can, too. Times do not depend on the order of these visits.
    for (bool progress = true; progress;) {
      progress = false;
      for (int rank = 0; rank < schedule_.stages.ranks; ++rank)
        while (step(rank)) progress = true;
    }
    for (int rank = 0; rank < schedule_.stages.ranks; ++rank)
      require(next(rank) == list(rank).size(), "[pp] the schedule never ends: ", waiting());
    price_.step = *std::max_element(free_.begin(), free_.end());
    return std::move(price_);
  }

 private:
  const std::vector<Action>& list(int rank) const { return schedule_.ranks[static_cast<size_t>(rank)]; }
  size_t& next(int rank) { return next_[static_cast<size_t>(rank)]; }
  double& free(int rank) { return free_[static_cast<size_t>(rank)]; }

  // Actions that begin together.
  std::span<const Action> piece(int rank) {
    const auto rest = std::span(list(rank)).subspan(next(rank));
    return rest.first(std::min<size_t>(rest.size(), options_.merge && !rest.empty() && rest[0].merged ? 2 : 1));
  }

  bool ready(int rank, const Action& action) const {
    const auto parcel = needed(schedule_.stages, rank, action);
    const int stage = schedule_.stages.stage(rank, action.chunk);
    return (!parcel || arrived_.contains(*parcel)) &&
           (action.is_forward() || forward_done_.contains({stage, action.micro}));
  }

  // Does the next piece of work of `rank`, if it can begin at all.
  bool step(int rank) {
    const auto actions = piece(rank);
    if (actions.empty() || !std::all_of(actions.begin(), actions.end(), [&](auto& a) { return ready(rank, a); }))
      return false;
    double begin = free(rank), end = 0;
    for (const Action& a : actions)
      if (const auto parcel = needed(schedule_.stages, rank, a)) begin = std::max(begin, arrived_.at(*parcel));
    end = begin;
    for (const Action& a : actions) end += duration(rank, a);
    for (const Action& a : actions) finish(rank, a, end);
    price_.spans[static_cast<size_t>(rank)].insert(price_.spans[static_cast<size_t>(rank)].end(), actions.size(),
                                                   {begin, end});
    price_.busy[static_cast<size_t>(rank)] += end - begin;
    free(rank) = end;
    next(rank) += actions.size();
    return true;
  }

  double duration(int rank, const Action& action) const {
    const StageTimes& t = times_[static_cast<size_t>(schedule_.stages.stage(rank, action.chunk))];
    switch (action.kind) {
      case Action::Kind::forward:
        return t.forward;
      case Action::Kind::backward:
        return t.backward_input + t.backward_weight;
      case Action::Kind::backward_input:
        return t.backward_input;
      case Action::Kind::backward_weight:
        return t.backward_weight;
    }
    base::fail_invariant(cat("[pp] action kind ", static_cast<int>(action.kind)));
  }

  void finish(int rank, const Action& action, double at) {
    if (action.is_forward()) forward_done_[{schedule_.stages.stage(rank, action.chunk), action.micro}] = at;
    const auto parcel = made(schedule_.stages, rank, action);
    if (!parcel) return;
    const int to = schedule_.stages.place(parcel->stage).rank;
    if (to != rank) {
      double& link = links_[{rank, to}];
      at = link = std::max(link, at) + options_.send;
    }
    arrived_[*parcel] = at;
  }

  std::string waiting() {
    std::string text;
    for (int rank = 0; rank < schedule_.stages.ranks; ++rank)
      if (next(rank) < list(rank).size())
        text += cat(text.empty() ? "" : ", ", "rank ", rank, " waits at ", to_string(list(rank)[next(rank)]));
    return text;
  }

  const Schedule& schedule_;
  const std::span<const StageTimes> times_;
  const PriceOptions options_;
  std::vector<size_t> next_;  // by rank: its next action
  std::vector<double> free_;  // by rank: when it has done what is before that
  std::map<Parcel, double> arrived_;
  std::map<std::pair<int, int>, double> forward_done_;  // by virtual stage and micro-batch
  std::map<std::pair<int, int>, double> links_;         // by sender and receiver: when it is free
  Price price_;
};

}  // namespace

double Price::bubble() const {
  const double all = step * static_cast<double>(busy.size());
  return (all - std::accumulate(busy.begin(), busy.end(), 0.0)) / all;
}

Price price(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options) {
  return Simulation(schedule, times, options).run();
}

Price price(const Schedule& schedule, const StageTimes& times, const PriceOptions& options) {
  const std::vector<StageTimes> all(static_cast<size_t>(schedule.stages.stages()), times);
  return price(schedule, all, options);
}

std::optional<double> bubble_seconds(const Schedule& schedule, const StageTimes& t, bool merge) {
  const double f = t.forward, i = t.backward_input, w = t.backward_weight;
  const int ranks = schedule.stages.ranks, micro_batches = schedule.micro_batches;
  const bool enough = micro_batches >= 2 * ranks;
  const auto where = [&](bool holds, double of_each_other) {
    return holds ? std::optional((ranks - 1) * of_each_other) : std::nullopt;
  };
  switch (schedule.kind) {
    case PipelineKind::gpipe:
    case PipelineKind::one_f_one_b:
      return where(true, f + i + w);
    case PipelineKind::interleaved:
      return where(micro_batches % ranks == 0, f + i + w);
    case PipelineKind::zb_h1:
      return where(micro_batches >= ranks, std::max(f + std::max(i - w, 0.0), i));
    case PipelineKind::zb_v:
      return where(enough && f <= i && w <= i && i <= 2 * w, i);
    case PipelineKind::dualpipe_v:
      return merge ? where(enough && f == i && w <= i, f + 2 * i - w)
                   : where(enough && i <= f && f <= i + w, f + std::max(i - w, 0.0));
  }
  base::fail_invariant(cat("[pp] schedule kind ", static_cast<int>(schedule.kind)));
}

}  // namespace hexad::pp
