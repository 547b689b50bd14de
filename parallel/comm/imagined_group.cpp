#include "parallel/comm/imagined_group.h"

#include <algorithm>
#include <numeric>

#include "framework/device/meta/meta_run.h"
#include "framework/device/meta/meta_stream.h"
#include "framework/tensor/device_access.h"
#include "parallel/comm/node_groups.h"

namespace hexad::comm {

using namespace base;
namespace {

using Kind = Operation::Kind;

// Returns `count` elements of `t`, beginning with element `begin`, as a flat tensor.
Tensor flat_part(const Tensor& t, int64_t begin, int64_t count) {
  return t.reshape({t.numel()}).slice(0, begin, begin + count);
}

// Makes the values of `out` unknown on a meta device, because other ranks would send them. A meta device does not store
// the bytes of a fill; it only forgets the earlier values.
void forget(const Tensor& out, Stream& stream) {
  if (out.numel() > 0) out.fill_bytes(0, stream);
}

// True if `t` is on a meta device and its values are unknown.
bool is_unknown(const Tensor& t) {
  device::MetaRun* run = t.numel() > 0 ? t.device().context().meta() : nullptr;
  return run && !t.storage()->on_host() && !run->memory()->known(tensor::device_raw(t), t.bytes());
}

void give_to_all(const Operation& op, int size, Stream& stream) {
  if (is_unknown(op.in)) return forget(op.out, stream);
  const int64_t n = op.in.numel();
  for (int r = 0; r < size; ++r) flat_part(op.out, r * n, n).copy_from(op.in.reshape({n}), stream);
}

void add_up(const Operation& op, int size) {
  if (op.reduce != Reduce::sum) return;
  with_dtype<double, float, int64_t>("imagined group", op.out.dtype(), [&]<class T>() {
    T* x = op.out.data<T>();
    for (int64_t i = 0; i < op.out.numel(); ++i) x[i] *= static_cast<T>(size);
  });
}

// Writes the message that this rank sends to itself at the position of each received message.
void exchange(const Operation& op, int rank, Stream& stream) {
  const auto& [send, receive] = op.splits;
  const size_t me = rank;
  const Tensor own = op.in.slice(0, std::accumulate(send.begin(), send.begin() + rank, int64_t{0}),
                                 std::accumulate(send.begin(), send.begin() + rank + 1, int64_t{0}));
  int64_t begin = 0;
  for (const int64_t rows : receive) {
    require(rows == send[me], "[imagined group] a rank would send ", rows, " rows to this rank; expected ", send[me],
            ", as many as this rank sends to itself");
    op.out.slice(0, begin, begin + rows).copy_from(own, stream);
    begin += rows;
  }
}

// Owner of the tensors of an operation in flight. An operation of host threads owns its tensors until it is done. An
// operation of NCCL owns none.
enum class Owner : uint8_t { operation, caller };

// Returns an event that completes when a thread waits for it. With Owner::operation, the operation holds its tensors
// until then; a real operation cannot hold them longer. Not used for messages between two ranks, which complete
// immediately: a thread waits for messages only after it has sent all its messages. `mark` is the mark of the operation
// in the log; null if the operation is not logged.
Event over_when_awaited(const Operation& op, Owner owner, const std::shared_ptr<const device::DeviceMark>& mark) {
  const auto state = Event::make_state();
  const Event event(state);
  for (const Tensor* t : {&op.in, &op.out})
    if (owner == Owner::operation && t->defined()) event.keep(t->storage());
  device::on_wait(state, [weak = std::weak_ptr(state), mark] {
    if (const auto self = weak.lock()) device::complete(self, nullptr, mark);
  });
  return event;
}

int add_to(device::IssueLog* log, const std::string& name, TrafficClass traffic, const std::vector<int>& ranks,
           int rank) {
  return log ? log->add_group({name, static_cast<int>(traffic), ranks, rank}) : -1;
}

}  // namespace

ImaginedGroup::ImaginedGroup(int rank, int size, device::IssueLog* log, std::vector<int> node_of_rank,
                             std::shared_ptr<const ImaginedCards> cards, ImaginedPeers peers)
    : ProcessGroup(TrafficClass::control, "world", std::make_shared<TrafficMeter>(),
                   node_of_rank.empty() ? std::vector<int>(size, 0) : std::move(node_of_rank)),
      rank_(rank),
      ranks_(first_ranks(size)),
      log_(log),
      logged_as_(add_to(log, name(), traffic(), ranks_, rank)),
      cards_(std::move(cards)),
      peers_(peers) {
  require(0 <= rank && rank < size, "[imagined group] the rank is ", rank, "; expected at least 0 and less than ",
          size);
}

ImaginedGroup::ImaginedGroup(int rank, std::vector<int> ranks, TrafficClass traffic, std::string name,
                             const ImaginedGroup& from)
    : ProcessGroup(traffic, std::move(name), from.meter(), nodes_of(ranks, from.node_of_rank())),
      rank_(rank),
      ranks_([&] {
        for (int& r : ranks) r = from.ranks_[r];
        return std::move(ranks);
      }()),
      log_(from.log_),
      logged_as_(add_to(log_, this->name(), traffic, ranks_, rank)),
      cards_(from.cards_),
      peers_(from.peers_) {}

std::unique_ptr<ProcessGroup> ImaginedGroup::split(int, int, TrafficClass, std::string name) const {
  fail_invariant(cat(
      "[imagined group] split() cannot make group ", name,
      ", because the colours of the other ranks are unknown; expected a call of subgroup(), which names the members"));
}

std::unique_ptr<ProcessGroup> ImaginedGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                      std::string name) const {
  const auto at = std::find(members.begin(), members.end(), rank_) - members.begin();
  return std::unique_ptr<ProcessGroup>(
      new ImaginedGroup(static_cast<int>(at), members, traffic, std::move(name), *this));
}

std::unique_ptr<ProcessGroup> ImaginedGroup::urgent(std::string name) const {
  return std::unique_ptr<ProcessGroup>(
      new ImaginedGroup(rank_, first_ranks(size()), traffic(), std::move(name), *this));
}

std::unique_ptr<ProcessGroup> ImaginedGroup::duplicate(std::string name) const {
  std::unique_ptr<ImaginedGroup> duplicate(
      new ImaginedGroup(rank_, first_ranks(size()), traffic(), std::move(name), *this));
  duplicate->connected_ = connected_;
  return duplicate;
}

// Returns the node of each rank's card.
std::vector<int> ImaginedGroup::nodes() const { return nodes_of(ranks_, cards_->node_of_rank); }

nccl::CommunicatorShape ImaginedGroup::shape() const {
  const std::vector<int>& nodes = cards_->node_of_rank;
  const int mine = nodes[ranks_[rank_]];
  const auto here = std::count_if(ranks_.begin(), ranks_.end(), [&](int rank) { return nodes[rank] == mine; });
  return nccl::shape_of({.traffic = traffic(), .across_nodes = here < size()}, size(), static_cast<int>(here));
}

void ImaginedGroup::connect(Uses uses, Device device) const {
  if (!cards_ || size() == 1) return;
  if (cards_->sums_in_order) uses = with_sums_in_order(uses);
  if (uses.has(Use::messages)) connect_routes(all_routes(size()), device);
  const Uses all = *connected_ | (uses - Use::messages);
  if (all == *connected_) return;
  const nccl::CommunicatorShape shape = this->shape();
  const int64_t bytes = nccl::connection_bytes(shape, all) - nccl::connection_bytes(shape, *connected_);
  *connected_ = all;
  device.context().allocator()->account(bytes, device::Category::connection);
}

void ImaginedGroup::connect_routes(std::span<const Route> routes, Device device) const {
  if (!cards_ || size() == 1) return;
  std::vector<Route> fresh;
  for (const Route& route : routes)
    if (routes_.insert(route).second) fresh.push_back(route);
  if (fresh.empty()) return;
  device.context().allocator()->account(nccl::message_bytes(fresh, max_routes_per_rank(routes_), rank_, nodes()),
                                        device::Category::connection);
}

// Connects the ranks for an operation if they are not connected yet. Throws std::logic_error for a message on a route
// that is not connected, if other routes are connected.
void ImaginedGroup::connect_for(const Operation& op, Device device) const {
  if (!op.is_point_to_point() || routes_.empty()) connect(use_over_nccl(op, *connected_), device);
  if (!op.is_point_to_point() || routes_.empty()) return;
  const Route route = op.kind == Kind::send ? Route{rank_, op.peer} : Route{op.peer, rank_};
  require(routes_.contains(route), "[", name(), "] connect_routes() did not name the route from rank ", route.from,
          " to rank ", route.to, "; expected a call with this route before the message");
}

Event ImaginedGroup::record(const Operation& op, const Stream& stream) const {
  std::shared_ptr<const device::DeviceMark> mark;
  if (log_ && size() > 1) {
    const int64_t row = op.out.defined() ? row_bytes(op.out) : 0;
    const auto& incoming = op.splits.receive;
    const int64_t rows = std::accumulate(incoming.begin(), incoming.end(), int64_t{0});
    const int64_t received = op.kind == Kind::all_to_all ? (rows - incoming[rank_]) * row
                             : op.kind == Kind::receive  ? op.out.bytes()
                                                         : 0;
    mark =
        log_->mark(log_->add("comm", name_of(op.kind), lane_of(stream),
                             device::CommunicationWork{logged_as_, op.wire_bytes(rank_, size()), received, op.peer}));
  }
  // A group of one rank has no other ranks for which an operation could wait.
  const bool at_once =
      op.is_point_to_point() || peers_ == ImaginedPeers::prompt || (size() == 1 && stream.runs_at_once());
  if (!at_once) return over_when_awaited(op, cards_ ? Owner::caller : Owner::operation, mark);
  return mark ? Event::at(mark) : Event();
}

Event ImaginedGroup::start(Operation op, Stream& stream) const {
  meter()->add_device_operation(traffic(), 0, op.wire_bytes(rank_, size()));
  const Tensor& t = op.out.defined() ? op.out : op.in;  // undefined for a barrier
  const bool on_host = t.defined() && t.storage()->on_host();
  if (t.defined() && !on_host) connect_for(op, t.device());
  const Event event = record(op, stream);
  const device::IssueLog::Pause pause(log_);
  switch (op.kind) {
    case Kind::all_gather:
      give_to_all(op, size(), stream);
      break;
    case Kind::all_reduce:
      on_host ? add_up(op, size()) : forget(op.out, stream);
      break;
    case Kind::all_to_all:
      on_host ? exchange(op, rank_, stream) : forget(op.out, stream);
      break;
    case Kind::reduce_scatter:
    case Kind::receive:
      require(!on_host, "[imagined group] ", name(), ": ", op,
              " needs values of other ranks, which are unknown; expected a tensor in device memory");
      forget(op.out, stream);
      break;
    case Kind::broadcast:
    case Kind::send:
    case Kind::barrier:
      break;
  }
  return event;
}

}  // namespace hexad::comm
