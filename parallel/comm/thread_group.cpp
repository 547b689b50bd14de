#include "parallel/comm/thread_group.h"

#include <mutex>
#include <thread>

#include "parallel/comm/meeting.h"

namespace hexad::comm {

ThreadGroup::ThreadGroup(std::shared_ptr<Meeting> meeting, int rank, TrafficClass traffic, std::string name,
                         std::shared_ptr<TrafficMeter> meter)
    : ProcessGroup(traffic, std::move(name), std::move(meter)), meeting_(std::move(meeting)), rank_(rank) {}

int ThreadGroup::size() const { return meeting_->size(); }

std::unique_ptr<ProcessGroup> ThreadGroup::split(int color, int key, TrafficClass traffic, std::string name) const {
  const Members members = agree(color, key, 0);
  auto child = meeting_->child(splits_++, name, members.ranks);
  return std::make_unique<ThreadGroup>(std::move(child), members.index, traffic, std::move(name), meter());
}

Event ThreadGroup::start(Operation op, Stream& stream) const {
  auto flight = Flight::make(meter(), traffic());
  const Event event = flight->event();
  const Meeting::Ticket ticket = meeting_->take(rank_, op);  // the order is that of calls, whenever streams get there
  const Event before = stream.record();
  before.then([meeting = meeting_, rank = rank_, ticket, before, flight, op = std::move(op)]() mutable {
    try {
      before.wait();  // already done: asks whether the work before us failed
    } catch (...) {
      return flight->complete(0, std::current_exception());
    }
    flight->begin();
    meeting->arrive(ticket, rank, std::move(op), std::move(flight));
  });
  return event;
}

void with_ranks(int n, const std::function<void(const ProcessGroup& world)>& body) {
  const auto meeting = std::make_shared<Meeting>("world", n);
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&](int rank) {
    const ThreadGroup world(meeting, rank, TrafficClass::control, "world", std::make_shared<TrafficMeter>());
    try {
      body(world);
    } catch (...) {
      {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      meeting->abort(
          std::make_exception_ptr(Error(ExitCode::peer_lost, cat("[world] rank ", rank, " ended with an error"))));
    }
    meeting->leave(rank);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace hexad::comm
