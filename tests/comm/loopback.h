// Engines of several ranks, connected by a network inside this process.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "framework/base/philox.h"
#include "parallel/comm/engine.h"
#include "parallel/comm/engine_group.h"

namespace hexad::comm {

using base::Error;
using base::Philox;
using base::Purpose;

/// Messages and notes in flight between the ranks of a job.
struct Wires {
  std::mutex mutex;
  struct Message {
    std::vector<std::byte> bytes;
    std::shared_ptr<bool> taken;  // guarded by the mutex, like all members
  };
  std::map<std::tuple<int, int, int>, std::deque<Message>> messages;  // by sender, receiver, tag
  std::map<int, std::vector<Transport::Note>> notes;                  // by receiver
};

/// Slow and unfair network. Delivers the messages of each pair of ranks and tag in order, but only at random polls.
/// Delivers only at every `polls`-th poll if `polls` is above 0.
class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(std::shared_ptr<Wires> wires, int rank, int size, uint64_t polls = 0)
      : wires_(std::move(wires)),
        polls_of_delivery_(polls),
        random_(1, Purpose::jitter, "loopback", static_cast<uint64_t>(rank)) {
    topology_ = {.rank = rank, .size = size, .node_of_rank = {}};
    for (int r = 0; r < size; ++r) topology_.node_of_rank.push_back(r / 2);
  }
  const Topology& topology() const override { return topology_; }
  int largest_tag() const override { return 1000; }

  void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone when) override {
    std::lock_guard lock(wires_->mutex);
    const auto taken = std::make_shared<bool>(when == SendDone::copied);
    wires_->messages[{topology_.rank, to, tag}].push_back({{data, data + bytes}, taken});
    sent_.push_back({token, taken});
  }
  void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) override {
    if (bytes == broken_size) base::fail(ExitCode::communication, "the wire is cut");
    if (bytes == costly_size) throw std::bad_alloc();
    waiting_[{from, topology_.rank, tag}].push_back({token, data, bytes});
  }
  void program_waits(bool) override {}
  bool wake_with(std::function<void()>) override { return false; }
  void poll(std::vector<Done>& done) override {
    std::lock_guard lock(wires_->mutex);
    std::erase_if(sent_, [&](const Sent& s) {
      if (*s.taken) done.push_back({s.token, {}});
      return *s.taken;
    });
    const uint64_t poll = polls_++;
    if (polls_of_delivery_ > 0 ? (poll + 1) % polls_of_delivery_ != 0 : random_.below(poll, 3) != 0) return;
    for (auto& [key, receives] : waiting_) {
      auto& wire = wires_->messages[key];
      if (receives.empty() || wire.empty()) continue;
      const Receive r = receives.front();
      ASSERT_EQ(static_cast<int64_t>(wire.front().bytes.size()), r.bytes);
      if (r.bytes) std::memcpy(r.data, wire.front().bytes.data(), wire.front().bytes.size());
      *wire.front().taken = true;
      wire.pop_front();
      receives.pop_front();
      done.push_back({r.token, {}});
    }
  }
  std::vector<Pending> pending(uint64_t token) const override {
    std::vector<Pending> list;
    for (const auto& [key, receives] : waiting_)
      for (const Receive& r : receives)
        if (r.token == token) list.push_back({std::get<0>(key), true});
    return list;
  }
  void send_note(int to, const std::string& text) override {
    std::lock_guard lock(wires_->mutex);
    wires_->notes[to].push_back({topology_.rank, text});
  }
  void take_notes(std::vector<Note>& notes) override {
    if (topology_.rank == deaf) return;
    std::lock_guard lock(wires_->mutex);
    for (Note& note : wires_->notes[topology_.rank]) notes.push_back(std::move(note));
    wires_->notes[topology_.rank].clear();
  }
  void abort(int code) override { aborted = code; }

  static constexpr int64_t broken_size = 13;  // size of receives that fail
  static constexpr int64_t costly_size = 23;  // size of receives that throw std::bad_alloc
  static inline std::atomic<int> aborted = 0;
  static inline std::atomic<int> deaf = -1;  // rank whose engine does not answer, as if it were stopped; -1: none

 private:
  struct Receive {
    uint64_t token;
    std::byte* data;
    int64_t bytes;
  };
  struct Sent {
    uint64_t token;
    std::shared_ptr<bool> taken;
  };
  std::shared_ptr<Wires> wires_;
  Topology topology_;
  uint64_t polls_of_delivery_;
  Philox random_;
  uint64_t polls_ = 0;
  std::vector<Sent> sent_;
  std::map<std::tuple<int, int, int>, std::deque<Receive>> waiting_;
};

/// Limits under which an operation of more than 256 KiB has several rounds.
inline const CommEngine::Options small_rounds{.limits = {.round_bytes = 1 << 18, .window_bytes = 1 << 20}};

/// Runs `body` on ranks that are threads, each with an engine. Ranks 2 k and 2 k + 1 form a node.
inline void with_engines(int ranks,
                         const std::function<void(const ProcessGroup& world, const base::FileWork& work)>& body,
                         CommEngine::Options options = small_rounds) {
  const auto wires = std::make_shared<Wires>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      CommEngine engine([&] { return std::make_unique<LoopbackTransport>(wires, rank, ranks); }, options);
      body(EngineGroup(engine, TrafficClass::control, "world"), engine.file_work());
    });
  for (std::thread& thread : threads) thread.join();
}

inline void with_engines(int ranks, const std::function<void(const ProcessGroup& world)>& body,
                         CommEngine::Options options = small_rounds) {
  with_engines(
      ranks, [&](const ProcessGroup& world, const base::FileWork&) { body(world); }, options);
}

/// Runs `body` on all ranks with these guards. Returns the text of the error on rank 0, or "no failure".
inline std::string failure_on_rank_0(int ranks, const Guards& guards,
                                     const std::function<void(const ProcessGroup&)>& body) {
  CommEngine::Options options = small_rounds;
  options.guards = guards;
  std::string text = "no failure";
  with_engines(
      ranks,
      [&](const ProcessGroup& world) {
        try {
          body(world);
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), ExitCode::communication);
          if (world.rank() == 0) text = e.what();
        }
      },
      options);
  return text;
}

/// Gate at which work on a stream waits until another thread calls pass().
struct Gate {
  std::atomic<bool> open = false;
  void wait() const { open.wait(false); }
  void pass() { open = true, open.notify_all(); }
};

}  // namespace hexad::comm
