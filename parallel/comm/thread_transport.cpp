#include "parallel/comm/thread_transport.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "framework/base/philox.h"

namespace hexad::comm {
namespace {

using base::cat;
using base::Error;
using base::ExitCode;
using namespace std::chrono_literals;

// Time without any request or delivery after which messages are delivered even if not all ranks are blocked.
constexpr auto longest_silence = 2s;
// Number of deliveries after which the adversary changes the order of the wires.
constexpr uint64_t moves_in_order = 32;

}  // namespace

// Transport of one rank.
class ThreadNetwork::Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<ThreadNetwork> network, int rank) : network_(std::move(network)) {
    const std::vector<int>& nodes = network_->options_.node_of_rank;
    topology_ = {.rank = rank, .size = static_cast<int>(nodes.size()), .node_of_rank = nodes, .node_names = {}};
    for (int node = 0; node <= *std::max_element(nodes.begin(), nodes.end()); ++node)
      topology_.node_names.push_back(cat("node", node));
    topology_.takes_cards = network_->options_.takes_cards;
    topology_.in_one_process = true;
    topology_.local_rank = static_cast<int>(std::count(nodes.begin(), nodes.begin() + rank, nodes[rank]));
  }
  ~Endpoint() override { network_->leave(topology_.rank); }

  const Topology& topology() const override { return topology_; }
  int largest_tag() const override { return INT_MAX; }
  void send(int to, int tag, const std::byte* data, int64_t bytes, uint64_t token, SendDone when) override {
    network_->send(topology_.rank, to, tag,
                   {.token = token, .data = data, .bytes = bytes, .may_be_copied = when == SendDone::copied});
  }
  void receive(int from, int tag, std::byte* data, int64_t bytes, uint64_t token) override {
    network_->receive(topology_.rank, from, tag, {.token = token, .data = data, .bytes = bytes});
  }
  void program_waits(bool is_waiting) override { waits_ = is_waiting; }
  bool wake_with(std::function<void()> wake) override {
    network_->wake_with(topology_.rank, std::move(wake));
    return true;
  }
  void poll(std::vector<Done>& done) override { network_->poll(topology_.rank, waits_, done); }
  std::vector<Pending> pending(uint64_t token) const override { return network_->pending(topology_.rank, token); }
  void send_note(int to, const std::string& text) override {
    network_->send_note(to, {topology_.rank, text.substr(0, longest_note)});
  }
  void take_notes(std::vector<Note>& notes) override { network_->take_notes(topology_.rank, notes); }
  void abort(int) override {
    network_->fail(std::make_exception_ptr(
        Error(ExitCode::peer_lost,
              cat("[world] rank ", topology_.rank, " ended with an error; see the message of rank ", topology_.rank))));
  }

 private:
  const std::shared_ptr<ThreadNetwork> network_;
  Topology topology_;
  bool waits_ = false;
};

ThreadNetwork::ThreadNetwork(Options options) : options_(std::move(options)), ranks_(options_.node_of_rank.size()) {}

std::unique_ptr<Transport> ThreadNetwork::connect(int rank) {
  return std::make_unique<Endpoint>(shared_from_this(), rank);
}

void ThreadNetwork::fail(std::exception_ptr reason) {
  std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_ = std::move(reason);
  for (const Rank& rank : ranks_)
    if (rank.wake) rank.wake();
}

void ThreadNetwork::wake_with(int rank, std::function<void()> wake) {
  std::lock_guard lock(mutex_);
  at(rank).wake = std::move(wake);
}

void ThreadNetwork::add_completion(int rank, Transport::Done done) {
  at(rank).done.push_back(std::move(done));
  if (at(rank).wake) at(rank).wake();
}

void ThreadNetwork::send(int rank, int to, int tag, Send message) {
  std::lock_guard lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  if (options_.adversary) {
    const base::Philox random(*options_.adversary, base::Purpose::jitter, "read at once", static_cast<uint64_t>(rank));
    if (random.below(at(rank).sent++, 2) == 0) {
      message.copy.assign(message.data, message.data + message.bytes);
      message.data = message.copy.data();  // remains valid when the message is moved
      message.done = message.may_be_copied;
      if (message.done) add_completion(rank, {.token = message.token});
    }
  }
  const Key key{rank, to, tag};
  Wire& wire = wires_[key];
  wire.sends.push_back(std::move(message));
  changed(key, wire);
}

void ThreadNetwork::receive(int rank, int from, int tag, Receive message) {
  std::lock_guard lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  constexpr int nan = 0xff;  // all bits set: NaN in any floating dtype
  if (options_.adversary && message.bytes > 0) std::memset(message.data, nan, message.bytes);
  const Key key{from, rank, tag};
  Wire& wire = wires_[key];
  wire.receives.push_back(message);
  changed(key, wire);
}

void ThreadNetwork::changed(const Key& key, Wire& wire) {
  changed_ = Clock::now();
  if (!options_.adversary) deliver(key, wire);
  give_up(key, wire);
}

void ThreadNetwork::deliver(const Key& key, Wire& wire) {
  const auto [from, to, tag] = key;
  while (wire.matched()) {
    const Send sent = std::exchange(wire.sends.front(), {});
    const Receive received = wire.receives.front();
    wire.sends.pop_front();
    wire.receives.pop_front();
    if (const int64_t bytes = std::min(sent.bytes, received.bytes); bytes > 0)
      std::memcpy(received.data, sent.data, bytes);
    if (!sent.done) add_completion(from, {.token = sent.token});
    Transport::Done arrived{.token = received.token};
    if (sent.bytes != received.bytes)
      arrived.error = cat("receive from rank ", from, ": ", sent.bytes, " bytes arrived, expected ", received.bytes);
    add_completion(to, std::move(arrived));
  }
}

// Reports errors for messages to or from a rank that has ended, because the ended rank will not request them any more.
void ThreadNetwork::give_up(const Key& key, Wire& wire) {
  const auto [from, to, tag] = key;
  const auto ended = [&](int rank, int other, uint64_t token) {
    add_completion(rank, {token, cat("rank ", other, " has ended"), ExitCode::peer_lost});
  };
  if (at(to).ended) {
    for (const Send& s : wire.sends)
      if (!s.done) ended(from, to, s.token);
    wire.sends.clear();
  }
  if (at(from).ended) {
    for (; wire.receives.size() > wire.sends.size(); wire.receives.pop_back())
      ended(to, from, wire.receives.back().token);
  }
}

bool ThreadNetwork::all_ranks_blocked() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& r) { return r.ended || (r.is_waiting && r.done.empty()); });
}

void ThreadNetwork::deliver_next() {
  const base::Philox random(*options_.adversary, base::Purpose::jitter, "wires", moves_ / moves_in_order);
  const auto place = [&](const Key& key) {
    const auto [from, to, tag] = key;
    const auto wire = static_cast<uint64_t>(from) * ranks_.size() + static_cast<uint64_t>(to);
    return random.bits(static_cast<uint64_t>(tag) * ranks_.size() * ranks_.size() + wire);
  };
  std::pair<const Key, Wire>* first = nullptr;
  for (auto& entry : wires_)
    if (entry.second.matched() && (!first || place(entry.first) < place(first->first))) first = &entry;
  if (!first) return;
  deliver(first->first, first->second);
  ++moves_;
  changed_ = Clock::now();
}

void ThreadNetwork::poll(int rank, bool program_waits, std::vector<Transport::Done>& done) {
  std::lock_guard lock(mutex_);
  if (failed_) std::rethrow_exception(failed_);
  Rank& me = at(rank);
  me.is_waiting = program_waits;
  if (options_.adversary && (all_ranks_blocked() || Clock::now() > changed_ + longest_silence)) deliver_next();
  if (me.done.empty()) return;
  done.insert(done.end(), std::make_move_iterator(me.done.begin()), std::make_move_iterator(me.done.end()));
  me.done.clear();
  me.is_waiting = false;  // false until the next poll()
}

std::vector<Transport::Pending> ThreadNetwork::pending(int rank, uint64_t token) {
  std::vector<Transport::Pending> list;
  std::lock_guard lock(mutex_);
  for (const auto& [key, wire] : wires_) {
    const auto [from, to, tag] = key;
    if (from == rank)
      for (const Send& s : wire.sends)
        if (s.token == token && !s.done) list.push_back({to, false});
    if (to == rank)
      for (const Receive& r : wire.receives)
        if (r.token == token) list.push_back({from, true});
  }
  return list;
}

void ThreadNetwork::send_note(int to, Transport::Note note) {
  std::lock_guard lock(mutex_);
  at(to).notes.push_back(std::move(note));
}

void ThreadNetwork::take_notes(int rank, std::vector<Transport::Note>& notes) {
  std::lock_guard lock(mutex_);
  for (Transport::Note& note : at(rank).notes) notes.push_back(std::move(note));
  at(rank).notes.clear();
}

void ThreadNetwork::leave(int rank) {
  std::lock_guard lock(mutex_);
  at(rank).ended = true;
  at(rank).wake = nullptr;
  for (auto& [key, wire] : wires_) {
    const auto [from, to, tag] = key;
    // Drops the sends of a rank that leaves, because its memory may be freed. Keeps sends that are already done: their
    // data has been copied.
    if (from == rank) std::erase_if(wire.sends, [](const Send& s) { return !s.done; });
    if (to == rank) wire.receives.clear();
    if (from == rank || to == rank) give_up(key, wire);
  }
}

}  // namespace hexad::comm
