// The watchdog of the communication engine.
#include <algorithm>
#include <utility>

#include "parallel/comm/engine.h"

namespace hexad::comm {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

// Looks of the watchdog in its time: a hang is found at most so much too late.
constexpr int looks = 16;
// Between two looks at what other engines say.
constexpr auto listening = 100ms;

}  // namespace

CommEngine::Clock::duration CommEngine::between_looks() const {
  return std::chrono::duration_cast<Clock::duration>(Seconds(watchdog_seconds_ / looks));
}

std::optional<CommEngine::Clock::time_point> CommEngine::next_look() const {
  if (failed_) return Clock::now() + listening;
  if (watchdog_seconds_ <= 0) return {};
  const auto listen = listened_ + listening;
  return queue_.empty() ? listen : std::min(listen, looked_ + between_looks());
}

void CommEngine::watch() {
  if (watchdog_seconds_ <= 0) return;
  const auto now = Clock::now();
  if (now >= listened_ + listening) {
    listened_ = now;
    listen();
  }
  if (!queue_.empty() && now >= looked_ + between_looks()) {
    looked_ = now;
    look();
  }
}

void CommEngine::look() {
  const RequestPtr late = queue_.overdue(looks);
  if (!late) return hang_watch_->drop();
  if (hang_watch_->asking()) return;
  const std::vector<int> missing = missing_of(*late).ranks;
  const Standing::Kind kind = missing.empty() ? Standing::Kind::works : Standing::Kind::waits;
  hang_watch_->begin({.kind = kind, .missing = missing, .text = report_hang(*late)}, standing(), watchdog_seconds_);
}

void CommEngine::listen() {
  const auto work = file_work_.now();
  const uint64_t moves = work ? work->moves : 0;
  quiet_listens_ = moves == seen_moves_ ? quiet_listens_ + 1 : 0;
  seen_moves_ = moves;
  const HangWatch::News news = hang_watch_->listen([this] { return standing(); });
  if (news.moves) queue_.forgive(static_cast<int>(looks * news.quiet_seconds / watchdog_seconds_));
  if (news.hang && !failed_) std::rethrow_exception(news.hang);
}

CommEngine::Missing CommEngine::missing_of(const Request& request) const {
  // Of the first round in flight: later ones hang because of it.
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
    const std::vector<int> missing = missing_of(*request).ranks;
    if (missing.empty()) continue;
    const double seconds = Seconds(quiet * between_looks()).count();
    if (waits.text.empty() || seconds > waits.seconds)
      waits.seconds = seconds, waits.text = cat(describe(*request), " for rank ", list_of(missing));
    waits.missing.insert(waits.missing.end(), missing.begin(), missing.end());
  }
  if (!waits.missing.empty()) return waits;
  if (const auto work = file_work_.now())
    return {.kind = Standing::Kind::files,
            .seconds = Seconds(quiet_listens_ * listening).count(),
            .text = work->file.empty() ? work->what
                                       : cat(work->what, ": ", work->file, ", ", work->bytes, " bytes of it done")};
  if (!last_done_) return {.text = "it has done no operation yet"};
  const double seconds = Seconds(Clock::now() - last_done_at_).count();
  return {.seconds = seconds,
          .text = cat("its last operation, ", last_done_->operation.call(), " of group ", last_done_->group, ", ended ",
                      static_cast<int64_t>(seconds), " s ago")};
}

std::string CommEngine::describe(const Request& request) const {
  return cat("operation ", request.number, " of group ", request.group, " (", request.members->size(), " ranks), ",
             request.operation.call());
}

std::string CommEngine::report_hang(const Request& request) const {
  const Missing missing = missing_of(request);
  const std::string what =
      missing.ranks.empty()
          ? "the work before it on this rank is not done"
          : (missing.taking ? "nothing is taken by rank " : "nothing comes from rank ") + list_of(missing.ranks);
  return cat("hang: ", watchdog_seconds_, " s in ", describe(request), ": ", what);
}

}  // namespace hexad::comm
