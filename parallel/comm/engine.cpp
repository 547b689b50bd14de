#include "parallel/comm/engine.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "framework/base/blocked_signals.h"
#include "framework/base/failure.h"

namespace hexad::comm {

using namespace base;
namespace {

using namespace std::chrono_literals;

// Maximum time for which the engine waits in two cases:
//   - After a failure, for the rank's thread to end the job. After this time, the engine ends the job.
//   - After a request to end, for the other ranks to reach MPI_Init. After this time, the process ends.
constexpr auto patience_at_end = 5s;

// Returns the tag of a channel's messages. Each communicator has two tags: one for collectives, one for send and
// receive. A message of a collective therefore never matches a message of send or receive.
int tag_of(const Channel& channel) {
  return 2 * channel.communicator + (channel.kind == Channel::Kind::collective ? 0 : 1);
}

// Returns the error of the work that precedes `event`; null if the work succeeded. `event` must be done.
std::exception_ptr error_of(const Event& event) {
  try {
    event.wait();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

Failure failure_in(const std::exception_ptr& error) {
  return attempted([&] { std::rethrow_exception(error); });
}

}  // namespace

CommEngine::CommEngine(std::function<std::unique_ptr<Transport>()> connect, Options options)
    : options_(options),
      check_collectives_(options.guards.check_collectives),
      round_bytes_(options.limits.round_bytes),
      queue_(options.limits, options.make_message_plan),
      watchdog_seconds_(options.guards.watchdog_seconds) {
  std::exception_ptr failed;
  {
    const base::BlockedSignals blocked;
    thread_ = std::thread([this, &connect, &failed] { run(connect, failed); });
  }
  await_connection();
  if (!failed) return;
  thread_.join();
  std::rethrow_exception(failed);
}

void CommEngine::await_connection() {
  std::unique_lock lock(inbox_->mutex);
  for (Clock::duration asked{}; !inbox_->changed.wait_for(lock, 100ms, [&] { return connected_; });) {
    if (!options_.asked_to_end || !options_.asked_to_end() || (asked += 100ms) < patience_at_end) continue;
    // Exits the process, because nothing can interrupt MPI_Init.
    std::fprintf(stderr,
                 "this rank was asked to end, but other ranks have not reached MPI_Init: they are lost or still "
                 "starting; this process ends now\n");
    std::fflush(nullptr);
    std::_Exit(static_cast<int>(ExitCode::peer_lost));
  }
}

CommEngine::~CommEngine() {
  command([this] {
    queue_.boost_all();
  });  // the destructor waits for all operations, so the watchdog must check all of them
  {
    std::lock_guard lock(inbox_->mutex);
    stopping_ = true;
  }
  inbox_->changed.notify_all();
  thread_.join();
}

void CommEngine::take_communicator(int number) {
  if (number > largest_communicator_)
    base::fail(ExitCode::communication, "rank ", topology_.rank, " needs communicator ", number,
               ", but the message tags of its transport suffice only for communicators up to ", largest_communicator_,
               "; use fewer groups, or an MPI library with larger tags");
  next_communicator_ = number + 1;
}

void CommEngine::set_guards(const Guards& guards) {
  check_collectives_ = guards.check_collectives;
  command([this, seconds = guards.watchdog_seconds] { watchdog_seconds_ = seconds; });
}

void CommEngine::limit(const Limits& limits) {
  round_bytes_ = limits.round_bytes;
  command([this, limits] { queue_.limit(limits); });
}

void CommEngine::prioritize(const Priorities& priorities) {
  command([this, priorities] { queue_.prioritize(priorities); });
}

Event CommEngine::post(Channel channel, TrafficClass traffic, const std::string& group,
                       std::shared_ptr<const std::vector<int>> members, int rank, Operation operation, Stream& stream) {
  auto request = std::make_shared<Request>();
  request->channel = channel;
  request->traffic = traffic;
  request->group = group;
  request->members = std::move(members);
  request->operation = std::move(operation);
  request->rank = rank;
  request->round_bytes = round_bytes_;
  request->link = link_of(*request);
  request->checked = check_collectives_;
  request->flight =
      Flight::make(meter_, traffic, [this, inbox = inbox_, rank_thread = rank_thread_, weak = std::weak_ptr(request)] {
        const bool urgent = std::this_thread::get_id() == rank_thread;
        inbox->put([this, weak, urgent] {
          const RequestPtr r = weak.lock();
          if (!r || r->done() || failed_) return;
          queue_.boost(*r);
          if (!std::exchange(r->awaited, true)) ++awaited_;
          if (urgent && !r->urgent) r->urgent = true, ++urgent_;
        });
      });
  if (request->members->size() > 1 && request->flight->may_be_logged())
    request->flight->describe(request->operation.to_string(), request->link == Link::network);
  const Event event = request->flight->event();
  const auto enqueue = [this, request] {
    if (failed_)
      request->flight->complete(0, failed_);
    else
      queue_.post(request);
  };
  const auto make_ready = [this, request](const std::exception_ptr& error) {
    if (failed_) return;
    // Peers would wait forever for an operation that never starts, so the whole engine fails.
    if (error) return fail(error);
    queue_.make_ready(request);
  };
  const Event before = stream.record();
  if (before.done()) {
    command([=, error = error_of(before)] { enqueue(), make_ready(error); });
    return event;
  }
  command(enqueue);  // queued immediately, so that operations keep the order of the calls
  before.then([=, inbox = inbox_] { inbox->put([=, error = error_of(before)] { make_ready(error); }); });
  return event;
}

Link CommEngine::link_of(const Request& request) const {
  const auto elsewhere = [&](int world_rank) {
    const auto& nodes = topology_.node_of_rank;
    return nodes[world_rank] != nodes[topology_.rank];
  };
  const std::vector<int>& members = *request.members;
  const bool away = request.operation.is_point_to_point() ? elsewhere(members[request.operation.peer])
                                                          : std::any_of(members.begin(), members.end(), elsewhere);
  return away ? Link::network : Link::node;
}

void CommEngine::abort_job(int code) {
  std::fflush(nullptr);
  // The exit code of a lost rank shows the cause of the failure. This rank therefore first gives the lost rank time to
  // set the exit code of the job. Then this rank ends the job, because some launchers do not end the remaining ranks.
  if (code == static_cast<int>(base::ExitCode::peer_lost)) std::this_thread::sleep_for(3s);
  command([this, code] { transport_->abort(code); });
  std::this_thread::sleep_for(3s);
  // The engine's thread does not respond, so this process exits. Most launchers then end the other ranks.
  std::_Exit(code);
}

void CommEngine::Inbox::put(Command c) {
  {
    std::lock_guard lock(mutex);
    if (closed) return;
    commands.push_back(std::move(c));
  }
  changed.notify_all();
}

void CommEngine::Inbox::wake() {
  {
    std::lock_guard lock(mutex);
    woken = true;
  }
  changed.notify_all();
}

void CommEngine::run(const std::function<std::unique_ptr<Transport>()>& connect, std::exception_ptr& failed) {
  pthread_setname_np(pthread_self(), "comm");
  bool served = false;
  try {
    transport_ = connect();
    if (options_.jitter) transport_ = delayed(std::move(transport_), options_.jitter);
    wakes_ = transport_->wake_with([inbox = inbox_] { inbox->wake(); });
    hang_watch_.emplace(*transport_);
    topology_ = transport_->topology();
    largest_communicator_ = transport_->largest_tag() / 2 - 1;
    served = true;
  } catch (...) {
    failed = std::current_exception();
  }
  {
    std::lock_guard lock(inbox_->mutex);
    connected_ = true;
    // Notifies while holding the lock, because `failed` and this object may be destroyed once the lock is released.
    inbox_->changed.notify_all();
  }
  if (!served) return;
  serve();
  // After a failure, a regular shutdown could wait forever, because it waits for all ranks.
  if (failed_) transport_->abort(static_cast<int>(failure_in(failed_).code));
  transport_.reset();
}

void CommEngine::serve() {
  bool progress = false;
  while (take_commands(progress)) {
    progress = false;
    try {
      start_rounds();
      progress = poll();
      end_after_failure();
      watch();
    } catch (...) {
      fail(std::current_exception());
    }
    rest(progress);
  }
}

bool CommEngine::take_commands(bool progress) {
  std::vector<Command> commands;
  {
    std::unique_lock lock(inbox_->mutex);
    // Does not wait after progress, because a round that has just finished may allow another round to start.
    if (running_.empty() && !progress) {
      const auto awake = [&] { return (stopping_ && queue_.empty()) || !inbox_->commands.empty(); };
      inbox_->changed.wait_until(lock, next_look(), awake);
    }
    commands.swap(inbox_->commands);
    inbox_->woken = false;
    ending_ = stopping_;
    if (commands.empty() && stopping_ && queue_.empty()) {
      inbox_->closed = true;
      return false;
    }
  }
  for (const Command& c : commands) c();
  return true;
}

void CommEngine::start_rounds() {
  while (true) {
    const IssueQueue::Start start_now = queue_.next();
    if (!start_now.request) return;
    start(start_now.request, start_now.round);
  }
}

void CommEngine::start(const RequestPtr& request, size_t round) {
  const uint64_t token = next_token_++;
  const Round& messages = request->plan.rounds[round];
  running_[token] = {request, round, messages.sends.size() + messages.receives.size()};
  request->flight->begin();
  const int tag = tag_of(request->channel);
  const auto world = [&](int peer) { return (*request->members)[peer]; };
  try {
    for (const Transfer& t : messages.receives) transport_->receive(world(t.peer), tag, t.data, t.bytes, token);
    // The sends must be `taken` if there are no receives: a `copied` send shows that the link has accepted the data,
    // but not that the peer has begun the operation.
    const auto done = messages.receives.empty() ? Transport::SendDone::taken : Transport::SendDone::copied;
    for (const Transfer& t : messages.sends) {
      transport_->send(world(t.peer), tag, t.data, t.bytes, token, done);
      request->sent_bytes += t.bytes;
    }
  } catch (...) {
    const Failure failure = failure_in(std::current_exception());
    base::fail(failure.code, request->what(), " on rank ", topology_.rank, ": ", failure.text);
  }
  if (running_[token].messages == 0) finish_round(token);
}

bool CommEngine::poll() {
  if (running_.empty()) return false;
  done_.clear();
  transport_->program_waits(awaited_ > 0 || ending_);
  transport_->poll(done_);
  for (const Transport::Done& message : done_) {
    Running& running = running_.at(message.token);
    if (!message.error.empty())
      base::fail(message.code, running.request->what(), " on rank ", topology_.rank, ": ", message.error);
    if (--running.messages == 0) finish_round(message.token);
  }
  return !done_.empty();
}

void CommEngine::finish_round(uint64_t token) {
  const Running running = std::move(running_.extract(token).mapped());
  queue_.finish(running.request, running.round);
  if (running.request->done()) complete(running.request, nullptr);
}

void CommEngine::complete(const RequestPtr& request, std::exception_ptr error) {
  if (std::exchange(request->urgent, false)) --urgent_;
  if (std::exchange(request->awaited, false)) --awaited_;
  if (!error) {  // frees memory before waiting threads continue; after an error, messages may still be in flight
    request->plan.scratch.clear();
    request->operation.in = request->operation.out = Tensor();
    last_done_ = request;
    last_done_at_ = Clock::now();
    listens_without_progress_ = listens_with_missing_peers_ = 0;
  }
  request->flight->complete(request->sent_bytes, std::move(error));
}

void CommEngine::fail(std::exception_ptr error) {
  if (failed_) return;  // keeps the first error, and the requests in `abandoned_`
  failed_ = error;
  failed_at_ = Clock::now();
  abandoned_ = queue_.drain();
  running_.clear();
  for (const RequestPtr& request : abandoned_) complete(request, error);
}

void CommEngine::end_after_failure() {
  if (!failed_ || Clock::now() < failed_at_ + patience_at_end) return;
  failed_at_ = Clock::now();
  const Failure failure = failure_in(failed_);
  std::fprintf(stderr, "rank %d: %s\n", topology_.rank, failure.text.c_str());
  std::fflush(nullptr);
  transport_->abort(static_cast<int>(failure.code));
}

void CommEngine::rest(bool progress) {
  if (progress || running_.empty()) {
    idle_polls_ = 0;
    return;
  }
  ++idle_polls_;
  const auto sleep_at_most = [this](Clock::duration time) {
    std::unique_lock lock(inbox_->mutex);
    inbox_->changed.wait_for(lock, time, [&] { return inbox_->woken || !inbox_->commands.empty(); });
  };
  if (wakes_) return sleep_at_most(10ms);  // a short sleep, because watch() and end_after_failure() must check the time
  // At first only yields the core, which another rank may share, while the rank's own thread waits. A wait of more than
  // about a millisecond is due to computation on a peer, not to latency. The rank's thread waits for communication
  // either itself or through the thread of a lane.
  constexpr int spins = 1000;
  const bool urgent = urgent_ > 0 || (awaited_ > 0 && meter_->rank_is_blocked());
  if (urgent && idle_polls_ < spins) {
    sched_yield();
    return;
  }
  // Sleeps in all other cases. Short sleeps reduce the matrix-product throughput of a busy core by up to a third; long
  // sleeps leave the link idle.
  sleep_at_most(urgent ? 50us : std::min(100us * idle_polls_, 500us));
}

}  // namespace hexad::comm
