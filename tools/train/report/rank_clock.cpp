#include "tools/train/report/rank_clock.h"
#include "framework/base/clock.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/median.h"

namespace hexad::train {
namespace {

using base::now;

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }
double seconds_of(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

// Returns a number for each rank; only ranks with the same number are compared. Ranks are compared within a pipeline
// stage, because stages have different layers. If every stage has a single rank, all ranks are compared.
std::vector<int> kinds_of(const mesh::Mesh& mesh) {
  const int size = mesh.world().size();
  const bool by_stage = size > mesh.size(base::Axis::pp);
  std::vector<int> kinds;
  for (int r = 0; r < size; ++r) kinds.push_back(by_stage ? mesh.layout().coordinate(base::Axis::pp, r) : 0);
  return kinds;
}

// Returns the sum of all ranks' bytes and the mean of their seconds, by traffic class. Limits each mean to `seconds`,
// the step time of this rank, because other ranks may have taken longer.
telemetry::CommByClass comm_of(const std::vector<std::vector<int64_t>>& ranks, double seconds) {
  telemetry::CommByClass comm;
  double exposed = 0;
  for (size_t c = 0; c < comm::traffic_class_count; ++c) {
    telemetry::CommMetrics& m = comm[std::string(comm::name_of(static_cast<comm::TrafficClass>(c)))];
    for (const auto& rank : ranks) {
      m.bytes += rank[3 * c + 2];
      m.seconds += seconds_of(rank[3 * c + 3]) / static_cast<double>(ranks.size());
      m.exposed_seconds += seconds_of(rank[3 * c + 4]) / static_cast<double>(ranks.size());
    }
    m.seconds = std::min(m.seconds, seconds);
    m.exposed_seconds = std::min(m.exposed_seconds, m.seconds);
    exposed += m.exposed_seconds;
  }
  if (exposed > seconds)
    for (auto& [name, m] : comm) m.exposed_seconds *= seconds / exposed;
  return comm;
}

}  // namespace

RankClock::RankClock(const comm::World& world, const mesh::Mesh& mesh)
    : world_(world), slow_ranks_(kinds_of(mesh)), totals_(world.size()) {
  static_cast<void>(take());  // discards the traffic of group creation
}

RankClock::TrafficByClass RankClock::take() const {
  TrafficByClass traffic;
  for (size_t c = 0; c < traffic.size(); ++c) traffic[c] = world_.group().take(static_cast<comm::TrafficClass>(c));
  return traffic;
}

void RankClock::keep_late_bytes() {
  const TrafficByClass late = take();
  for (size_t c = 0; c < late.size(); ++c)
    if (static_cast<comm::TrafficClass>(c) != comm::TrafficClass::control) late_bytes_[c] += late[c].bytes;
}

RankClock::Account RankClock::account_since(double began) const {
  Account account{.seconds = now() - began, .traffic = take()};
  double waited = 0;
  for (comm::TrafficStats& t : account.traffic) {
    // Limits the seconds to those of the step. They may be more, because a device may report operations of an earlier
    // step, and because overlapping operations are summed up.
    t.seconds = std::min(t.seconds, account.seconds);
    t.exposed_seconds = std::min(t.exposed_seconds, t.seconds);  // includes waits for a free core
    waited += t.exposed_seconds;
  }
  account.waited_seconds = std::min(waited, account.seconds);
  // Several threads may have waited for different classes at the same time. Scales the times, so that together they are
  // not more than the step.
  if (waited > account.seconds)
    for (comm::TrafficStats& t : account.traffic) t.exposed_seconds *= account.seconds / waited;
  return account;
}

void RankClock::begin() {
  keep_late_bytes();
  rank_thread_.emplace(*world_.group().meter());
  began_ = now();
}

void RankClock::end() {
  step_ = account_since(began_);
  rank_thread_.reset();
  for (size_t c = 0; c < late_bytes_.size(); ++c) step_.traffic[c].bytes += std::exchange(late_bytes_[c], 0);
}

std::vector<std::vector<int64_t>> RankClock::gathered(const Account& account, device::Device device) const {
  std::vector<int64_t> mine{nanoseconds(account.seconds), nanoseconds(account.waited_seconds)};
  for (const comm::TrafficStats& t : account.traffic)
    mine.insert(mine.end(), {t.bytes, nanoseconds(t.seconds), nanoseconds(t.exposed_seconds)});
  const std::vector<int64_t> all = world_.group().all_gather_values(mine, device);
  std::vector<std::vector<int64_t>> ranks;
  for (auto at = all.begin(); at != all.end(); at += std::ssize(mine)) ranks.emplace_back(at, at + std::ssize(mine));
  return ranks;
}

RankClock::Phase RankClock::measure(device::DeviceContext& context, const std::function<void()>& work) {
  context.compute().synchronize();
  keep_late_bytes();
  const comm::RankThread rank_thread(*world_.group().meter());
  const double began = now();
  try {
    work();
  } catch (...) {
    take();  // discards the traffic between steps
    throw;
  }
  const Account account = account_since(began);
  return {account.seconds, comm_of(gathered(account, context), account.seconds)};
}

std::vector<std::string> RankClock::report(telemetry::StepMetrics& metrics, device::Device device) {
  const auto ranks = gathered(step_, device);
  metrics.step_seconds = step_.seconds;
  metrics.comm = comm_of(ranks, step_.seconds);
  if (ranks.size() == 1) return {};
  std::vector<telemetry::RankTime> times;
  for (const auto& rank : ranks) times.push_back({seconds_of(rank[0]), seconds_of(rank[1])});
  metrics.ranks = telemetry::rank_times(times);
  for (size_t r = 0; r < times.size(); ++r) totals_[r].own_seconds += times[r].own_seconds();
  ++totals_[metrics.ranks->slowest.front().rank].slowest;
  ++steps_;
  return warnings(times);
}

std::vector<std::string> RankClock::warnings(const std::vector<telemetry::RankTime>& times) {
  constexpr size_t named = 3;
  std::vector<std::string> texts;
  const auto slow = slow_ranks_.add(times);
  for (size_t i = 0; i < std::min(slow.size(), named); ++i)
    texts.push_back(fmt::format(
        "{} is slow: {:.1f} ms of own work per step, {:.2f} x the median of comparable ranks ({:.1f} ms), over the "
        "last {} steps; the other ranks wait for this one",
        name(slow[i].rank), 1e3 * slow[i].own_seconds, slow[i].own_seconds / slow[i].median_seconds,
        1e3 * slow[i].median_seconds, telemetry::SlowRanks::window));
  if (slow.size() > named)
    texts.push_back(slow.size() == named + 1 ? "1 more rank is slow"
                                             : fmt::format("{} more ranks are slow", slow.size() - named));
  return texts;
}

std::string RankClock::summary() const {
  if (steps_ == 0) return "";
  std::vector<double> own;
  for (const Total& t : totals_) own.push_back(1e3 * t.own_seconds / static_cast<double>(steps_));
  const size_t slowest = std::ranges::max_element(own) - own.begin();
  return fmt::format(
      "own work of a rank in a step, without waiting: median {:.2f} ms, highest {:.2f} ms ({}, the slowest rank in {} "
      "of {})",
      base::lower_median(own), own[slowest], name(static_cast<int>(slowest)), totals_[slowest].slowest,
      base::counted(steps_, "step"));
}

}  // namespace hexad::train
