#include "parallel/comm/jitter.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace hexad::comm {

std::chrono::microseconds Jitter::delay(std::string_view what, uint64_t rank, uint64_t index) const {
  const base::Philox random(seed, base::Purpose::jitter, what, rank);
  return std::chrono::microseconds(random.below(index, static_cast<uint64_t>(max_delay.count()) + 1));
}

DelayLine::DelayLine() : thread_([this] { run(); }) {}

DelayLine::~DelayLine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DelayLine::after(std::chrono::microseconds delay, std::function<void()> action) {
  {
    std::lock_guard lock(mutex_);
    actions_.emplace(Clock::now() + delay, std::move(action));
  }
  changed_.notify_all();
}

void DelayLine::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (actions_.empty()) {
      if (stopping_) return;
      changed_.wait(lock);
    } else if (const auto when = actions_.begin()->first; stopping_ || when <= Clock::now()) {
      auto action = actions_.extract(actions_.begin());
      lock.unlock();
      action.mapped()();
      action = {};  // destroys the objects that the action owns while the mutex is not locked
      lock.lock();
    } else {
      changed_.wait_until(lock, when);
    }
  }
}

namespace {

class DelayedTransport final : public Transport {
 public:
  DelayedTransport(std::unique_ptr<Transport> transport, const Jitter& jitter)
      : transport_(std::move(transport)), jitter_(jitter) {}

  const Topology& topology() const override { return transport_->topology(); }
  int largest_tag() const override { return transport_->largest_tag(); }

  void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone done) override {
    auto& wire = wires_[{to, tag}];
    auto when = Clock::now() + jitter_.delay("transport", static_cast<uint64_t>(topology().rank), sent_++);
    if (!wire.empty()) when = std::max(when, wire.back().when);
    wire.push_back({when, data, bytes, token, done});
  }
  // Does not delay the receive, because the sender has already delayed the message.
  void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) override {
    transport_->receive(from, tag, data, bytes, token);
  }
  void program_waits(bool waits) override { transport_->program_waits(waits); }
  // Returns false, because poll() sends the delayed messages.
  bool wake_with(std::function<void()>) override { return false; }
  void poll(std::vector<Done>& done) override {
    const auto now = Clock::now();
    for (auto& [to, wire] : wires_)
      for (; !wire.empty() && wire.front().when <= now; wire.pop_front()) {
        const Message& m = wire.front();
        transport_->send(to.first, to.second, m.data, m.bytes, m.token, m.done);
      }
    transport_->poll(done);
  }
  std::vector<Pending> pending(uint64_t token) const override {
    auto list = transport_->pending(token);
    for (const auto& [to, wire] : wires_)
      for (const Message& m : wire)
        if (m.token == token) list.push_back({to.first, false});
    return list;
  }
  void send_note(int to, const std::string& text) override { transport_->send_note(to, text); }
  void take_notes(std::vector<Note>& notes) override { transport_->take_notes(notes); }
  void abort(int code) override { transport_->abort(code); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    Clock::time_point when;
    const std::byte* data;
    int64_t bytes;
    uint64_t token;
    SendDone done;
  };
  const std::unique_ptr<Transport> transport_;
  const Jitter jitter_;
  uint64_t sent_ = 0;
  std::map<std::pair<int, int>, std::deque<Message>> wires_;  // keyed by destination and tag
};

}  // namespace

std::unique_ptr<Transport> delayed(std::unique_ptr<Transport> transport, const Jitter& jitter) {
  return std::make_unique<DelayedTransport>(std::move(transport), jitter);
}

}  // namespace hexad::comm
