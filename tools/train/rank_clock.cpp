#include "tools/train/rank_clock.h"
#include "framework/base/clock.h"

#include <algorithm>

#include <fmt/format.h>

namespace hexad::train {
namespace {

using base::now;

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }
double seconds_of(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

// Stages of a pipeline have different layers: their ranks are compared with those of the same stage, unless it has one.
std::vector<int> kinds_of(const mesh::Mesh& mesh) {
  const int size = mesh.world().size();
  const bool by_stage = size > mesh.size(base::Axis::pp);
  std::vector<int> kinds;
  for (int r = 0; r < size; ++r) kinds.push_back(by_stage ? mesh.layout().coordinate(base::Axis::pp, r) : 0);
  return kinds;
}

}  // namespace

RankClock::RankClock(const comm::World& world, const mesh::Mesh& mesh)
    : world_(world), slow_ranks_(kinds_of(mesh)), totals_(static_cast<size_t>(world.size())) {}

RankClock::Traffic RankClock::take() const {
  Traffic traffic;
  for (size_t c = 0; c < traffic.size(); ++c) traffic[c] = world_.group().take(static_cast<comm::TrafficClass>(c));
  return traffic;
}

void RankClock::begin() {
  traffic_ = take();
  began_ = now();
}

void RankClock::end() {
  seconds_ = now() - began_;
  const Traffic step = take();
  waited_ = 0;
  for (size_t c = 0; c < step.size(); ++c) {
    waited_ += step[c].exposed_seconds;
    traffic_[c].bytes += step[c].bytes;
    traffic_[c].seconds += step[c].seconds;
    traffic_[c].exposed_seconds += step[c].exposed_seconds;
  }
  waited_ = std::min(waited_, seconds_);  // two threads may have waited at once
}

std::vector<std::string> RankClock::report(telemetry::StepMetrics& metrics, device::Device device) {
  std::vector<int64_t> mine{nanoseconds(seconds_), nanoseconds(waited_)};
  for (const comm::TrafficStats& t : traffic_)
    mine.insert(mine.end(), {t.bytes, nanoseconds(t.seconds), nanoseconds(t.exposed_seconds)});
  const auto& group = world_.group();
  const std::vector<int64_t> all = group.all_gather_values(mine, device);
  std::vector<telemetry::RankTime> times;
  std::vector<int64_t> sums(mine.size());
  for (size_t at = 0; at < all.size(); at += mine.size()) {
    times.push_back({seconds_of(all[at]), seconds_of(all[at + 1])});
    for (size_t i = 0; i < mine.size(); ++i) sums[i] += all[at + i];
  }
  metrics.step_seconds = seconds_;
  for (size_t c = 0; c < traffic_.size(); ++c)
    metrics.comm[std::string(comm::name_of(static_cast<comm::TrafficClass>(c)))] = {
        .bytes = sums[3 * c + 2],
        .seconds = seconds_of(sums[3 * c + 3]) / group.size(),
        .exposed_seconds = seconds_of(sums[3 * c + 4]) / group.size()};
  if (group.size() == 1) return {};
  metrics.ranks = telemetry::rank_times(times);
  for (size_t r = 0; r < times.size(); ++r) totals_[r].own_seconds += times[r].own_seconds();
  ++totals_[static_cast<size_t>(metrics.ranks->slowest.front().rank)].slowest;
  ++steps_;
  return warnings(times);
}

std::vector<std::string> RankClock::warnings(const std::vector<telemetry::RankTime>& times) {
  constexpr size_t named = 3;
  std::vector<std::string> texts;
  const auto slow = slow_ranks_.add(times);
  for (size_t i = 0; i < std::min(slow.size(), named); ++i)
    texts.push_back(fmt::format(
        "{} is slow: {:.1f} ms of own work a step, {:.2f} x the median of ranks that do the same ({:.1f} ms), over the "
        "last {} steps; the others wait for it",
        name(slow[i].rank), 1e3 * slow[i].own_seconds, slow[i].own_seconds / slow[i].median_seconds,
        1e3 * slow[i].median_seconds, telemetry::SlowRanks::window));
  if (slow.size() > named) texts.push_back(fmt::format("{} more ranks are slow", slow.size() - named));
  return texts;
}

std::string RankClock::summary() const {
  if (steps_ == 0) return "";
  std::vector<double> own;
  for (const Total& t : totals_) own.push_back(1e3 * t.own_seconds / static_cast<double>(steps_));
  const auto slowest = static_cast<size_t>(std::ranges::max_element(own) - own.begin());
  return fmt::format(
      "own work of a rank in a step, without waiting: median {:.2f} ms; most {:.2f} ms, {}, the slowest in {} of {} "
      "steps",
      telemetry::lower_median(own), own[slowest], name(static_cast<int>(slowest)), totals_[slowest].slowest, steps_);
}

}  // namespace hexad::train
