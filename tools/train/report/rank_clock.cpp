#include "tools/train/report/rank_clock.h"
#include "framework/base/clock.h"

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/median.h"
#include "parallel/comm/text_collectives.h"

namespace hexad::train {
namespace {

using base::now;

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }
double seconds_of(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

// Returns a number for each rank; only ranks with the same number are compared. Ranks are compared within a pipeline
// stage, because stages have different layers. If every stage has a single rank, all ranks are compared. Returns an
// empty list on all ranks but rank 0, which alone compares the ranks.
std::vector<int> kinds_of(const comm::ProcessGroup& world, const mesh::Mesh& mesh) {
  if (world.rank() != 0) return {};
  const int size = world.size();
  const bool by_stage = size > mesh.size(base::Axis::pp);
  std::vector<int> kinds;
  kinds.reserve(size);
  for (int r = 0; r < size; ++r) kinds.push_back(by_stage ? mesh.layout().coordinate(base::Axis::pp, r) : 0);
  return kinds;
}

// Returns the times of all ranks from the nanoseconds of each rank's step and waits.
std::vector<telemetry::RankTime> times_of_ranks(const std::vector<int64_t>& gathered) {
  std::vector<telemetry::RankTime> times;
  times.reserve(gathered.size() / 2);
  for (size_t i = 0; i < gathered.size(); i += 2)
    times.push_back({seconds_of(gathered[i]), seconds_of(gathered[i + 1])});
  return times;
}

// Returns `times` as numbers, which rank_times_of() converts back.
std::vector<double> numbers_of(const telemetry::RankTimes& times) {
  std::vector<double> numbers;
  for (const telemetry::Spread* s : {&times.step_seconds, &times.waited_seconds, &times.own_seconds})
    numbers.insert(numbers.end(), {s->least, s->median, s->most});
  for (const telemetry::RankTimes::Rank& r : times.slowest)
    numbers.insert(numbers.end(), {static_cast<double>(r.rank), r.own_seconds, r.waited_seconds});
  return numbers;
}

telemetry::RankTimes rank_times_of(std::span<const double> numbers) {
  const auto spread = [&](size_t i) { return telemetry::Spread{numbers[i], numbers[i + 1], numbers[i + 2]}; };
  telemetry::RankTimes times{
      .step_seconds = spread(0), .waited_seconds = spread(3), .own_seconds = spread(6), .slowest = {}};
  for (size_t i = 9; i < numbers.size(); i += 3)
    times.slowest.push_back({static_cast<int>(numbers[i]), numbers[i + 1], numbers[i + 2]});
  return times;
}

std::vector<std::string> warning_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Returns the times that rank 0 passes. Other ranks pass an empty object. Collective.
telemetry::RankTimes from_rank_0(const telemetry::RankTimes& times, const comm::ProcessGroup& world,
                                 device::Device device) {
  std::vector<double> numbers = numbers_of(times);
  numbers.resize(9 + 3 * std::min(static_cast<size_t>(world.size()), telemetry::RankTimes::listed));
  const auto sent = tensor::Tensor::from<double>(numbers, {static_cast<int64_t>(numbers.size())}, device.host(),
                                                 device::Category::communication);
  device::InlineStream stream;
  world.broadcast(sent, 0, stream).wait();
  return rank_times_of(sent.to_vector<double>());
}

}  // namespace

RankClock::RankClock(const comm::ProcessGroup& world, const comm::Topology& topology, const mesh::Mesh& mesh)
    : world_(world),
      topology_(topology),
      slow_ranks_(kinds_of(world, mesh)),
      totals_(world.rank() == 0 ? world.size() : 0) {
  static_cast<void>(take());  // discards the traffic of group creation
}

RankClock::TrafficByClass RankClock::take() const {
  TrafficByClass traffic;
  for (size_t c = 0; c < traffic.size(); ++c) traffic[c] = world_.take(static_cast<comm::TrafficClass>(c));
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
    // Limits the seconds to the measured duration. The seconds may be larger for two reasons: a device may report
    // operations of an earlier step, and the times of overlapping operations are added.
    t.seconds = std::min(t.seconds, account.seconds);
    t.exposed_seconds = std::min(t.exposed_seconds, t.seconds);  // exposed seconds include waits for a free core
    waited += t.exposed_seconds;
  }
  account.waited_seconds = std::min(waited, account.seconds);
  // Several threads may have waited for different classes at the same time. Scales the times, so that their sum is at
  // most the measured duration.
  if (waited > account.seconds)
    for (comm::TrafficStats& t : account.traffic) t.exposed_seconds *= account.seconds / waited;
  return account;
}

void RankClock::begin() {
  keep_late_bytes();
  rank_thread_.emplace(*world_.meter());
  began_ = now();
}

void RankClock::end() {
  step_ = account_since(began_);
  rank_thread_.reset();
  for (size_t c = 0; c < late_bytes_.size(); ++c) step_.traffic[c].bytes += std::exchange(late_bytes_[c], 0);
}

telemetry::CommByClass RankClock::comm_of_all(const Account& account, device::Device device) const {
  std::vector<int64_t> sums;
  for (const comm::TrafficStats& t : account.traffic)
    sums.insert(sums.end(), {t.bytes, nanoseconds(t.seconds), nanoseconds(t.exposed_seconds)});
  const auto x = tensor::Tensor::from<int64_t>(sums, {static_cast<int64_t>(sums.size())}, device.host(),
                                               device::Category::communication);
  device::InlineStream stream;
  world_.all_reduce(x, comm::Reduce::sum, stream).wait();
  sums = x.to_vector<int64_t>();
  const auto mean = [&](int64_t sum) { return seconds_of(sum) / static_cast<double>(world_.size()); };
  telemetry::CommByClass comm;
  double exposed = 0;
  for (size_t c = 0; c < comm::traffic_class_count; ++c) {
    telemetry::CommMetrics& m = comm[std::string(comm::name_of(static_cast<comm::TrafficClass>(c)))];
    m.bytes = sums[3 * c];
    m.seconds = std::min(mean(sums[3 * c + 1]), account.seconds);
    m.exposed_seconds = std::min(mean(sums[3 * c + 2]), m.seconds);
    exposed += m.exposed_seconds;
  }
  if (exposed > account.seconds)
    for (auto& [name, m] : comm) m.exposed_seconds *= account.seconds / exposed;
  return comm;
}

RankClock::Phase RankClock::measure(device::DeviceContext& context, const std::function<void()>& work) {
  context.compute().synchronize();
  keep_late_bytes();
  const comm::RankThread rank_thread(*world_.meter());
  const double began = now();
  try {
    work();
  } catch (...) {
    take();  // discards the traffic of the failed work
    throw;
  }
  const Account account = account_since(began);
  return {account.seconds, comm_of_all(account, context)};
}

std::vector<std::string> RankClock::report(telemetry::StepMetrics& metrics, device::Device device) {
  metrics.step_seconds = step_.seconds;
  metrics.comm = comm_of_all(step_, device);
  if (world_.size() == 1) return {};
  const int64_t mine[] = {nanoseconds(step_.seconds), nanoseconds(step_.waited_seconds)};
  const std::vector<telemetry::RankTime> times = times_of_ranks(world_.gather_values(mine, device));
  telemetry::RankTimes summary;
  if (world_.rank() == 0) {
    summary = telemetry::rank_times(times);
    for (size_t r = 0; r < times.size(); ++r) totals_[r].own_seconds += times[r].own_seconds();
    ++totals_[summary.slowest.front().rank].slowest;
  }
  metrics.ranks = from_rank_0(summary, world_, device);
  ++steps_;
  const std::string warnings = world_.rank() == 0 ? warnings_of(times) : "";
  if (steps_ % telemetry::SlowRanks::window != 0) return {};
  return warning_lines(comm::broadcast_text(warnings, 0, world_, device));
}

std::string RankClock::warnings_of(const std::vector<telemetry::RankTime>& times) {
  constexpr size_t named = 3;
  std::string lines;
  const auto slow = slow_ranks_.add(times);
  for (size_t i = 0; i < std::min(slow.size(), named); ++i)
    lines += fmt::format(
        "{} is slow: {:.1f} ms of own work per step, {:.2f} x the median of comparable ranks ({:.1f} ms), over the "
        "last {} steps; the other ranks wait for this rank\n",
        name(slow[i].rank), 1e3 * slow[i].own_seconds, slow[i].own_seconds / slow[i].median_seconds,
        1e3 * slow[i].median_seconds, telemetry::SlowRanks::window);
  if (slow.size() > named)
    lines += slow.size() == named + 1 ? "1 more rank is slow\n"
                                      : fmt::format("{} more ranks are slow\n", slow.size() - named);
  return lines;
}

std::string RankClock::summary() const {
  if (steps_ == 0 || totals_.empty()) return "";
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
