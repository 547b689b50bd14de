#include "parallel/comm/thread_group.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "parallel/comm/node_groups.h"
#include "parallel/comm/rendezvous.h"

namespace hexad::comm {

using namespace base;
namespace {

using namespace std::chrono_literals;

std::vector<int> nodes_in_world(const ThreadOptions& options, const Rendezvous& rendezvous) {
  std::vector<int> nodes;
  for (int r : rendezvous.world_ranks()) nodes.push_back(options.node_of_rank.empty() ? 0 : options.node_of_rank[r]);
  return nodes;
}

// Late start of a collective. The collective starts once two conditions are met: the stream has reached the collective,
// and either a thread waits for the collective or ThreadOptions::patience has passed.
class AwaitedStart {
 public:
  void reached(std::function<void()> start) {
    std::unique_lock lock(mutex_);
    if (!awaited_) return start_.swap(start);
    lock.unlock();
    start();
  }
  void awaited() {
    std::function<void()> start;
    {
      std::lock_guard lock(mutex_);
      awaited_ = true;
      start.swap(start_);
    }
    if (start) start();
  }

 private:
  std::mutex mutex_;
  bool awaited_ = false;
  std::function<void()> start_;
};

}  // namespace

ThreadGroup::ThreadGroup(ThreadWorld world, std::shared_ptr<Rendezvous> rendezvous, int rank, TrafficClass traffic,
                         std::string name, std::shared_ptr<TrafficMeter> meter)
    : ProcessGroup(traffic, std::move(name), std::move(meter), nodes_in_world(world.options, *rendezvous)),
      world_(world),
      rendezvous_(std::move(rendezvous)),
      rank_(rank) {}

int ThreadGroup::size() const { return rendezvous_->size(); }

std::unique_ptr<ProcessGroup> ThreadGroup::split(int color, int key, TrafficClass traffic, std::string name) const {
  const Members members = agree(color, key, 0);
  auto child = rendezvous_->child(rank_, name, members.ranks);
  return std::make_unique<ThreadGroup>(world_, std::move(child), members.index, traffic, std::move(name), meter());
}

Event ThreadGroup::start(Operation op, Stream& stream) const {
  const bool of_stages = traffic() == TrafficClass::pp;
  const ThreadOptions::StagePause& pause = world_.options.stage_pause;
  if (of_stages && pause.ahead != rendezvous_->world_ranks()[rank_]) std::this_thread::sleep_for(pause.length);
  std::shared_ptr<AwaitedStart> late;
  if (world_.options.patience.count() > 0 && size() > 1 && !op.is_point_to_point() && !of_stages)
    late = std::make_shared<AwaitedStart>();
  auto flight = Flight::make(meter(), traffic(), late ? [late] { late->awaited(); } : std::function<void()>());
  if (size() > 1 && flight->may_be_logged()) flight->describe(op.to_string(), crosses_nodes(op));
  const Event event = flight->event();
  // Tickets are taken here, in the order of the calls. Streams may reach the operations in another order.
  const Rendezvous::Ticket ticket = rendezvous_->take(rank_, op);
  std::function<void()> arrive = [rendezvous = rendezvous_, rank = rank_, ticket, flight,
                                  op = std::move(op)]() mutable {
    rendezvous->arrive(ticket, rank, std::move(op), std::move(flight));
  };
  if (late)
    arrive = [delays = world_.delays, patience = world_.options.patience, late, arrive = std::move(arrive)]() mutable {
      late->reached(std::move(arrive));
      delays->after(patience, [late] { late->awaited(); });
    };
  if (world_.options.jitter) {
    const auto delay = world_.options.jitter.delay(cat(name(), ticket.from, ticket.to), static_cast<uint64_t>(rank_),
                                                   static_cast<uint64_t>(ticket.number));
    arrive = [delays = world_.delays, delay, arrive = std::move(arrive)] { delays->after(delay, arrive); };
  }
  const Event before = stream.record();
  before.then([before, flight, arrive = std::move(arrive)] {
    try {
      before.wait();  // does not block; rethrows the error of earlier work on the stream
    } catch (...) {
      return flight->complete(0, std::current_exception());
    }
    flight->begin();
    arrive();
  });
  return event;
}

void with_ranks(int n, const std::function<void(const ProcessGroup& world)>& body, const ThreadOptions& options) {
  require(options.node_of_rank.empty() || std::ssize(options.node_of_rank) == n, "[with_ranks] there are ", n,
          " ranks, but node_of_rank has ", options.node_of_rank.size(),
          " entries; expected none, or one for each rank");
  const auto rendezvous = std::make_shared<Rendezvous>("world", first_ranks(n));
  std::optional<DelayLine> delays;
  if (options.jitter || options.patience.count() > 0) delays.emplace();
  std::mutex mutex;
  std::condition_variable ended;
  int running = n;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    try {
      const ThreadGroup world({options, delays ? &*delays : nullptr}, rendezvous, rank, TrafficClass::control, "world",
                              std::make_shared<TrafficMeter>());
      body(world);
    } catch (...) {
      {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      rendezvous->abort(std::make_exception_ptr(Error(
          ExitCode::peer_lost, cat("[world] rank ", rank, " ended with an error; see the message of rank ", rank))));
    }
    const auto leave = [rendezvous, rank] { rendezvous->leave(rank); };
    if (delays)
      delays->after(options.jitter.max_delay + options.patience + 1us,
                    leave);  // runs after all remaining operations of this rank
    else
      leave();
    std::lock_guard lock(mutex);
    --running;
    ended.notify_all();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  if (options.watchdog_seconds > 0) {
    constexpr int looks = 16;
    const std::chrono::duration<double> interval(options.watchdog_seconds / looks);
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, interval, [&] { return running == 0; }))
      if (const std::string hang = overdue(rendezvous->look(), looks); !hang.empty())
        rendezvous->abort(std::make_exception_ptr(
            Error(ExitCode::communication, cat("hang: ", options.watchdog_seconds, " s in ", hang))));
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hexad::comm
