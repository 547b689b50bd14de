#include "parallel/comm/nccl/watch.h"

#include <algorithm>
#include <future>
#include <utility>

#include "framework/base/blocked_signals.h"
#include "framework/device/cuda/thread_card.h"

namespace hexad::comm::nccl {
namespace {

using namespace std::chrono_literals;
using base::cat;
using base::ExitCode;

// Minimum number of checks within the watchdog's limit. A hang is therefore detected at most 1/16 of the limit too
// late.
constexpr int looks = 16;
constexpr auto longest_interval = 20ms;
// Maximum time to wait for an abort of NCCL. An abort waits for NCCL's threads and may itself hang.
constexpr auto patience_with_abort = 5s;

void abort_all(const Library& library, int ordinal, const std::vector<ncclComm_t>& communicators) {
  const auto done = std::make_shared<std::promise<void>>();
  std::thread thread([&library, ordinal, communicators, done] {
    device::cuda::ensure_card(ordinal);  // needed, because NCCL restores the thread's current card after each call
    for (ncclComm_t c : communicators) static_cast<void>(library.comm_abort(c));
    done->set_value();
  });
  if (done->get_future().wait_for(patience_with_abort) == std::future_status::ready)
    thread.join();
  else
    thread.detach();
}

}  // namespace

Watch::Watch(const Library& library, int ordinal, int world_rank, Options options)
    : library_(library), ordinal_(ordinal), world_rank_(world_rank), options_(std::move(options)) {
  const base::BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watch::take(ncclComm_t communicator) {
  std::lock_guard lock(mutex_);
  communicators_.push_back(communicator);
}

bool Watch::release(ncclComm_t communicator) {
  std::lock_guard lock(mutex_);
  return std::erase(communicators_, communicator) > 0;
}

bool Watch::has(ncclComm_t communicator) {
  std::lock_guard lock(mutex_);
  return std::find(communicators_.begin(), communicators_.end(), communicator) != communicators_.end();
}

Watch::HostCall::HostCall(Watch& watch, std::string what) : watch_(watch) {
  std::lock_guard lock(watch_.mutex_);
  if (watch_.failed_) std::rethrow_exception(watch_.failed_);
  const bool was_idle = watch_.idle();
  number_ = watch_.next_call_++;
  watch_.calls_.emplace(number_, Call{.what = std::move(what)});
  if (was_idle) watch_.changed_.notify_all();
}

Watch::HostCall::~HostCall() {
  std::lock_guard lock(watch_.mutex_);
  watch_.calls_.erase(number_);
}

void Watch::launched(cudaStream_t stream, Launch launch) {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  const bool was_idle = idle();
  // Counts the bytes now, in the step that sends them, because the watch may detect the end of the operation much
  // later.
  if (launch.meter) launch.meter->add_device_operation(launch.traffic, 0, launch.bytes);
  flights_[stream].push_back({.launch = std::move(launch)});
  if (was_idle) changed_.notify_all();
}

Watch::Clock::duration Watch::interval() const {
  if (options_.watchdog_seconds <= 0) return longest_interval;
  const std::chrono::duration<double> part(options_.watchdog_seconds / looks);
  return std::min<Clock::duration>(longest_interval, std::chrono::duration_cast<Clock::duration>(part));
}

void Watch::run() {
  device::cuda::ensure_card(ordinal_);
  std::unique_lock lock(mutex_);
  auto last = Clock::now();
  while (!stopping_) {
    if (idle()) {
      changed_.wait(lock, [&] { return stopping_ || !idle(); });
      last = Clock::now();
      continue;
    }
    changed_.wait_for(lock, interval(), [&] { return stopping_; });
    const auto now = Clock::now();
    // Limits the time since the previous check, because this process may have been stopped, and a stop does not count
    // as waiting.
    const auto waited = std::min<Clock::duration>(now - std::exchange(last, now), 2 * interval());
    look(lock, std::chrono::duration<double>(waited).count());
  }
}

std::string Watch::look_at(std::deque<InFlight>& flights, double seconds) const {
  while (!flights.empty()) {
    InFlight& first = flights.front();
    if (!passed(first.launch.begin)) return {};  // the stream has not reached the operation yet
    if (!passed(first.launch.end)) {
      first.waits += seconds;
      return options_.watchdog_seconds > 0 && first.waits > options_.watchdog_seconds ? first.launch.what : "";
    }
    if (first.launch.meter)
      first.launch.meter->add_device_operation(first.launch.traffic,
                                               seconds_between(first.launch.begin, first.launch.end), 0);
    flights.pop_front();
  }
  return {};
}

void Watch::look(std::unique_lock<std::mutex>& lock, double seconds) {
  const auto hang = [&](const std::string& what) {
    fail(lock, ExitCode::communication,
         cat("hang: ", options_.watchdog_seconds, " s in ", what,
             ": this rank has begun it, but other ranks have not, or have begun something else; check their logs and "
             "the stacks of their processes"));
  };
  for (auto it = flights_.begin(); it != flights_.end();) {
    std::string late;
    try {
      late = look_at(it->second, seconds);
    } catch (const base::Error& e) {
      return fail(lock, e.code(), cat("in ", it->second.front().launch.what, ": ", e.what()));
    }
    if (!late.empty()) return hang(late);
    it = it->second.empty() ? flights_.erase(it) : std::next(it);
  }
  for (auto& [number, call] : calls_) {
    call.waits += seconds;
    if (options_.watchdog_seconds > 0 && call.waits > options_.watchdog_seconds) return hang(std::string(call.what));
  }
  for (ncclComm_t c : communicators_) {
    ncclResult_t state = ncclSuccess;
    if (library_.comm_get_async_error(c, &state) != ncclSuccess || state == ncclSuccess || state == ncclInProgress)
      continue;
    const auto code = state == ncclRemoteError ? ExitCode::peer_lost : ExitCode::communication;
    const std::string in = flights_.empty() ? calls_.empty() ? "" : calls_.begin()->second.what
                                            : flights_.begin()->second.front().launch.what;
    return fail(lock, code, cat(in.empty() ? "" : "in " + in + ": ", "NCCL: ", library_.get_error_string(state)));
  }
}

void Watch::fail(std::unique_lock<std::mutex>& lock, ExitCode code, const std::string& why) {
  const base::Error error(code, cat("[nccl] rank ", world_rank_, ": ", why));
  failed_ = std::make_exception_ptr(error);
  const std::vector<ncclComm_t> communicators = std::exchange(communicators_, {});
  flights_.clear();
  calls_.clear();
  lock.unlock();
  abort_all(library_, ordinal_, communicators);
  options_.on_failure(error);
  lock.lock();
}

}  // namespace hexad::comm::nccl
