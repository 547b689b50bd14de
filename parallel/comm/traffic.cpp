#include "parallel/comm/traffic.h"
#include "framework/base/clock.h"
#include "framework/base/ordinal.h"

#include <utility>

namespace hexad::comm {
using base::now;

std::string_view name_of(TrafficClass traffic) {
  constexpr std::string_view names[] = {"control", "tp", "ep", "pp", "cp", "dp"};
  return names[base::ordinal(traffic)];
}

void TrafficMeter::Span::run(bool wanted, double time) {
  if (wanted == runs) return;
  runs = wanted;
  if (runs)
    since = time;
  else
    seconds += time - since;
}

double TrafficMeter::Span::take(double time) {
  if (runs) seconds += time - std::exchange(since, time);
  return std::exchange(seconds, 0.0);
}

void TrafficMeter::count(TrafficClass traffic, Span Account::*member, int change, int64_t bytes) {
  std::lock_guard lock(mutex_);
  const double time = now();
  Account& account = accounts_[base::ordinal(traffic)];
  account.bytes += bytes;
  (account.*member).open += change;
  update(account, time);
}

void TrafficMeter::set_rank_thread(RankThreadState state) {
  std::lock_guard lock(mutex_);
  const double time = now();
  rank_thread_ = state;
  for (Account& account : accounts_) update(account, time);
}

bool TrafficMeter::rank_is_blocked() const {
  std::lock_guard lock(mutex_);
  return rank_thread_ == RankThreadState::blocked;
}

void TrafficMeter::update(Account& account, double time) {
  account.flying.run(account.flying.open > 0, time);
  account.waited.run(account.waited.open > 0 && rank_thread_ != RankThreadState::runs, time);
}

void TrafficMeter::add_device_operation(TrafficClass traffic, double seconds, int64_t bytes) {
  std::lock_guard lock(mutex_);
  Account& account = accounts_[base::ordinal(traffic)];
  account.bytes += bytes;
  account.flying.seconds += seconds;
}

TrafficStats TrafficMeter::take(TrafficClass traffic) {
  std::lock_guard lock(mutex_);
  const double time = now();
  Account& account = accounts_[base::ordinal(traffic)];
  return {std::exchange(account.bytes, 0), account.flying.take(time), account.waited.take(time)};
}

std::shared_ptr<Flight> Flight::make(std::shared_ptr<TrafficMeter> meter, TrafficClass traffic,
                                     std::function<void()> waited) {
  std::shared_ptr<Flight> flight(new Flight(std::move(meter), traffic));
  // The hook has a weak reference, because the flight owns the state, and the state owns the hook.
  device::on_wait(flight->state_, [weak = std::weak_ptr(flight), waited = std::move(waited)] {
    if (const auto self = weak.lock()) self->wait_begins();
    if (waited) waited();
  });
  return flight;
}

bool Flight::may_be_logged() const {
  return meter_->log().recording() || traffic_ == TrafficClass::dp || traffic_ == TrafficClass::pp;
}

void Flight::describe(std::string what, bool crosses_nodes) {
  record_ = std::make_unique<TrafficRecord>(
      TrafficRecord{.traffic = traffic_, .what = std::move(what), .crosses_nodes = crosses_nodes});
}

void Flight::begin() {
  std::lock_guard lock(mutex_);
  if (std::exchange(begun_, true) || done_) return;
  if (record_) record_->begin = now();
  meter_->flight_begins(traffic_);
}

void Flight::wait_begins() {
  std::lock_guard lock(mutex_);
  if (std::exchange(waited_, true) || done_) return;
  if (record_ && meter_->log().on_rank_thread()) record_->waited_from = now();
  meter_->wait_begins(traffic_);
}

void Flight::complete(int64_t bytes, std::exception_ptr error) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(done_, true)) return;
    if (begun_) meter_->flight_ends(traffic_, bytes);
    if (waited_) meter_->wait_ends(traffic_);
    if (record_ && begun_) {
      record_->end = now(), record_->bytes = bytes;
      meter_->log().add(std::move(*record_));
    }
  }
  device::complete(state_, std::move(error));
}

}  // namespace hexad::comm
