// The watchdog of the communication engine.
#include <algorithm>
#include <limits>
#include <utility>

#include "parallel/comm/engine.h"

namespace hexad::comm {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

// Number of checks within the watchdog's limit. A hang is therefore detected at most 1/16 of the limit too late.
constexpr int looks = 16;
// Interval between two calls of listen().
constexpr auto listening = 100ms;
// Time with missing peers after which the engine searches for lost ranks, if its process was asked to end.
constexpr auto grace = 3s;

}  // namespace

CommEngine::Clock::duration CommEngine::look_interval() const {
  return std::chrono::duration_cast<Clock::duration>(Seconds(watchdog_seconds_ / looks));
}

CommEngine::Clock::time_point CommEngine::next_look() const {
  if (failed_) return Clock::now() + listening;
  const auto listen = last_listen_ + listening;
  return queue_.empty() || watchdog_seconds_ <= 0 ? listen : std::min(listen, last_look_ + look_interval());
}

void CommEngine::watch() {
  const auto now = Clock::now();
  if (now >= last_listen_ + listening) {
    last_listen_ = now;
    listen();
    look_for_lost_ranks();
  }
  if (watchdog_seconds_ > 0 && !queue_.empty() && now >= last_look_ + look_interval()) {
    last_look_ = now;
    look();
  }
}

void CommEngine::look() {
  const RequestPtr late = queue_.overdue(looks);
  if (!late) return hang_watch_->drop();
  if (hang_watch_->asking()) return;
  const std::vector<int> missing = missing_peers(*late).ranks;
  const Standing::Kind kind = missing.empty() ? Standing::Kind::works : Standing::Kind::waits;
  hang_watch_->begin({.kind = kind, .missing = missing, .text = report_hang(*late)}, standing(), watchdog_seconds_);
}

// Searches for lost ranks if this process was asked to end, because it cannot end while it waits for a lost rank.
void CommEngine::look_for_lost_ranks() {
  if (failed_ || !options_.asked_to_end || !options_.asked_to_end()) return;
  constexpr auto lost_ranks = HangWatch::Search::lost_ranks;
  const auto waits = queue_.waited_for();
  const auto late = std::ranges::find_if(waits, [&](const auto& w) { return !missing_peers(*w.first).ranks.empty(); });
  if (late == waits.end()) listens_with_missing_peers_ = 0;
  if (listens_with_missing_peers_ == 0) hang_watch_->drop(lost_ranks);
  if (late == waits.end() || ++listens_with_missing_peers_ * listening < grace || hang_watch_->asking(lost_ranks))
    return;
  const Request& request = *late->first;
  const std::vector<int> missing = missing_peers(request).ranks;
  hang_watch_->begin({.kind = Standing::Kind::waits,
                      .missing = missing,
                      .text = cat("this rank was asked to end, but a rank is lost in ", describe(request), ": ",
                                  report_missing(request))},
                     standing(), std::numeric_limits<double>::infinity(), lost_ranks);
}

void CommEngine::listen() {
  const auto work = file_work_.now();
  const uint64_t moves = work ? work->moves : 0;
  listens_without_progress_ = moves == seen_moves_ ? listens_without_progress_ + 1 : 0;
  seen_moves_ = moves;
  const HangWatch::News news = hang_watch_->listen([this] { return standing(); });
  if (news.moves && watchdog_seconds_ > 0)
    queue_.reset_overdue(static_cast<int>(looks * news.quiet_seconds / watchdog_seconds_));
  if (news.hang && !failed_) std::rethrow_exception(news.hang);
}

CommEngine::Missing CommEngine::missing_peers(const Request& request) const {
  // Examines only the first round in flight: if later rounds hang, they hang because of the first.
  const std::pair<const uint64_t, Running>* first = nullptr;
  for (const auto& entry : running_)
    if (entry.second.request.get() == &request && (!first || entry.second.round < first->second.round)) first = &entry;
  std::vector<int> missing, deaf;
  if (!first) return {};
  for (const auto& [peer, receive] : transport_->pending(first->first)) (receive ? missing : deaf).push_back(peer);
  if (missing.empty()) return {.ranks = deaf, .taking = true};
  return {.ranks = missing};
}

Standing CommEngine::standing() const {
  if (failed_) return {.text = "it ends with an error"};
  Standing waits{.kind = Standing::Kind::waits};
  for (const auto& [request, quiet] : queue_.waited_for()) {
    const std::vector<int> missing = missing_peers(*request).ranks;
    if (missing.empty()) continue;
    const double seconds = Seconds(quiet * look_interval()).count();
    if (waits.text.empty() || seconds > waits.seconds)
      waits.seconds = seconds, waits.text = cat(describe(*request), " for ", list_of(missing));
    waits.missing.insert(waits.missing.end(), missing.begin(), missing.end());
  }
  if (!waits.missing.empty()) return waits;
  if (const auto work = file_work_.now())
    return {
        .kind = Standing::Kind::files,
        .seconds = Seconds(listens_without_progress_ * listening).count(),
        .text = work->file.empty() ? work->what : cat(work->what, ": ", work->file, ", ", work->bytes, " bytes done")};
  if (!last_done_) return {.text = "it has not completed any operation yet"};
  const double seconds = Seconds(Clock::now() - last_done_at_).count();
  return {.seconds = seconds,
          .text = cat("its last operation, ", last_done_->operation.call(), " of group ", last_done_->group, ", ended ",
                      static_cast<int64_t>(seconds), " s ago")};
}

std::string CommEngine::describe(const Request& request) const {
  return cat("operation ", request.number, " of group ", request.group, " (", request.members->size(), " ranks), ",
             request.operation.call());
}

std::string CommEngine::report_missing(const Request& request) const {
  const Missing missing = missing_peers(request);
  if (missing.ranks.empty()) return "the preceding work on this rank is not done";
  return (missing.taking ? "no message is taken by " : "no message arrives from ") + list_of(missing.ranks);
}

std::string CommEngine::report_hang(const Request& request) const {
  return cat("hang: ", watchdog_seconds_, " s in ", describe(request), ": ", report_missing(request));
}

}  // namespace hexad::comm
