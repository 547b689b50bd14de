#include "parallel/pp/price.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "framework/base/error.h"
#include "framework/schedule/queues.h"
#include "parallel/pp/dependencies.h"

namespace hexad::pp {
namespace {

using base::cat;
using base::require;

using schedule::Job;

double duration(const StageTimes& t, const Action& action) {
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
  base::fail_invariant(cat("[pp] the action's kind is ", static_cast<int>(action.kind), "; expected an Action::Kind"));
}

// Representation of a schedule as jobs for the simulator. There is one queue for each rank, and one queue for each link
// that carries messages.
class Jobs {
 public:
  Jobs(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options)
      : schedule_(schedule), times_(times), options_(options), queues_(schedule.stages.ranks) {
    require(static_cast<int>(times.size()) == schedule.stages.stages(), "[pp] times of ", times.size(),
            " virtual stages are given for ", schedule.stages.stages(), " virtual stages; expected equal numbers");
    for (int rank = 0; rank < schedule.stages.ranks; ++rank) add_rank(rank);
    for (const Piece& piece : pieces_)
      for (const Action& action : piece.actions) connect(piece, action);
  }

  Price run() const {
    const schedule::JobTimes times = run_jobs(jobs_, {.sets = queues_});
    Price price;
    price.spans.resize(schedule_.ranks.size());
    price.busy.resize(schedule_.ranks.size());
    std::string waiting;
    for (const Piece& piece : pieces_) {
      const size_t rank = piece.rank;
      if (std::ranges::find(times.stuck, piece.job) != times.stuck.end())
        waiting += cat(waiting.empty() ? "" : ", ", "rank ", rank, " waits at ", to_string(piece.actions.front()));
      const schedule::Interval& at = times.jobs[piece.job];
      price.spans[rank].insert(price.spans[rank].end(), piece.actions.size(), at);
      price.busy[rank] += at.length();
      price.step = std::max(price.step, at.end);
    }
    require(waiting.empty(), "[pp] the schedule never ends: ", waiting,
            "; expected an order in which ranks do not wait for each other");
    return price;
  }

 private:
  // Actions that begin together: one action, or a merged pair.
  struct Piece {
    int rank, job;
    std::span<const Action> actions;
  };

  void add_rank(int rank) {
    for (std::span rest(schedule_.ranks[rank]); !rest.empty();) {
      const auto actions = rest.first(std::min<size_t>(rest.size(), options_.merge && rest[0].merged ? 2 : 1));
      rest = rest.subspan(actions.size());
      const int job = static_cast<int>(jobs_.size());
      pieces_.push_back({rank, job, actions});
      jobs_.push_back({rank, 0});
      for (const Action& a : actions) {
        jobs_.back().seconds += duration(times_[stage(rank, a)], a);
        if (a.is_forward()) forwards_[{stage(rank, a), a.micro}] = job;
      }
      for (const Action& a : actions) send(rank, job, a);
    }
  }

  // Records the job that delivers the result of an action to another stage: a new job for the transfer if the stage is
  // on another rank, otherwise the job of the action.
  void send(int rank, int job, const Action& action) {
    const auto message = made(schedule_.stages, rank, action);
    if (!message) return;
    const int to = schedule_.stages.place(message->stage).rank;
    if (to == rank) {
      arrivals_[*message] = job;
      return;
    }
    const auto [link, added] = links_.try_emplace({rank, to}, queues_);
    if (added) ++queues_;
    arrivals_[*message] = static_cast<int>(jobs_.size());
    jobs_.push_back({link->second, options_.send, {job}});
  }

  void connect(const Piece& piece, const Action& action) {
    std::vector<int>& after = jobs_[piece.job].after;
    const auto wait = [&](const auto& jobs, const auto& key) {
      const auto it = jobs.find(key);
      require(it != jobs.end(), "[pp] the schedule never ends: rank ", piece.rank, " waits at ", action,
              " for a tensor that no action makes; expected an action that makes it");
      after.push_back(it->second);  // may be the job of `piece` itself, which then never starts
    };
    if (const auto message = needed(schedule_.stages, piece.rank, action)) wait(arrivals_, *message);
    if (!action.is_forward()) wait(forwards_, std::pair(stage(piece.rank, action), action.micro));
  }

  int stage(int rank, const Action& action) const { return schedule_.stages.stage(rank, action.local_stage); }

  const Schedule& schedule_;
  const std::span<const StageTimes> times_;
  const PriceOptions options_;
  int queues_;
  std::vector<Job> jobs_;
  std::vector<Piece> pieces_;
  std::map<Message, int> arrivals_;              // job that delivers each message
  std::map<std::pair<int, int>, int> forwards_;  // jobs of forwards, keyed by virtual stage and micro-batch
  std::map<std::pair<int, int>, int> links_;     // queue of each link, keyed by sender and receiver
};

}  // namespace

double Price::bubble() const {
  const double all = step * static_cast<double>(busy.size());
  return (all - std::accumulate(busy.begin(), busy.end(), 0.0)) / all;
}

Price price(const Schedule& schedule, std::span<const StageTimes> times, const PriceOptions& options) {
  return Jobs(schedule, times, options).run();
}

Price price(const Schedule& schedule, const StageTimes& times, const PriceOptions& options) {
  const std::vector<StageTimes> all(schedule.stages.stages(), times);
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
  base::fail_invariant(
      cat("[pp] the schedule's kind is ", static_cast<int>(schedule.kind), "; expected a PipelineKind"));
}

}  // namespace hexad::pp
