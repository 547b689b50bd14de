#include "parallel/comm/imagined_group.h"

#include <algorithm>
#include <numeric>

namespace hexad::comm {

using namespace base;
namespace {

using Kind = Operation::Kind;

// Returns `count` elements of `t` from element `begin` on, as a flat tensor.
Tensor part(const Tensor& t, int64_t begin, int64_t count) {
  return t.reshape({t.numel()}).slice(0, begin, begin + count);
}

void give_to_all(const Operation& op, int size, Stream& stream) {
  const int64_t n = op.in.numel();
  for (int r = 0; r < size; ++r) part(op.out, r * n, n).copy_from(op.in.reshape({n}), stream);
}

void add_up(const Operation& op, int size) {
  if (op.reduce != Reduce::sum) return;
  with_dtype<double, float, int64_t>("imagined group", op.out.dtype(), [&]<class T>() {
    T* x = op.out.data<T>();
    for (int64_t i = 0; i < op.out.numel(); ++i) x[i] *= static_cast<T>(size);
  });
}

// Copies this rank's own message to itself to the place of every other rank's message.
void exchange(const Operation& op, int rank, Stream& stream) {
  const auto& [send, receive] = op.splits;
  const size_t me = rank;
  const Tensor own = op.in.slice(0, std::accumulate(send.begin(), send.begin() + rank, int64_t{0}),
                                 std::accumulate(send.begin(), send.begin() + rank + 1, int64_t{0}));
  int64_t begin = 0;
  for (const int64_t rows : receive) {
    require(rows == send[me], "[imagined group] a rank would send ", rows, " rows; expected ", send[me],
            ", the number of this rank");
    op.out.slice(0, begin, begin + rows).copy_from(own, stream);
    begin += rows;
  }
}

// Marks the values that other ranks would write as unknown. Used on devices on which some values are known.
void forget(const Tensor& out, Stream& stream) {
  if (out.numel() > 0) out.fill_bytes(0, stream);
}

// Returns an event that completes once a thread waits for it. That is the latest possible time, so the operation holds
// its tensors for the longest possible time. Not used for messages to one rank: these leave immediately, because no
// thread waits for such a message before all have left.
Event over_when_awaited(const Operation& op) {
  const auto state = Event::make_state();
  const Event event(state);
  for (const Tensor* t : {&op.in, &op.out})
    if (t->defined()) event.keep(t->storage());
  device::on_wait(state, [weak = std::weak_ptr(state)] {
    if (const auto self = weak.lock()) device::complete(self);
  });
  return event;
}

}  // namespace

ImaginedGroup::ImaginedGroup(int rank, int size, TrafficClass traffic, std::string name,
                             std::shared_ptr<TrafficMeter> meter)
    : ProcessGroup(traffic, std::move(name), std::move(meter), std::vector<int>(size, 0)), rank_(rank), size_(size) {
  require(0 <= rank && rank < size, "[imagined group] rank ", rank, " of ", size);
}

std::unique_ptr<ProcessGroup> ImaginedGroup::split(int, int, TrafficClass, std::string name) const {
  fail_invariant(cat("[imagined group] ", name, ": the other ranks' colours are not known"));
}

std::unique_ptr<ProcessGroup> ImaginedGroup::subgroup(const std::vector<int>& members, TrafficClass traffic,
                                                      std::string name) const {
  const auto at = std::find(members.begin(), members.end(), rank_) - members.begin();
  return std::make_unique<ImaginedGroup>(static_cast<int>(at), static_cast<int>(members.size()), traffic,
                                         std::move(name), meter());
}

std::unique_ptr<ProcessGroup> ImaginedGroup::urgent(std::string name) const {
  return std::make_unique<ImaginedGroup>(rank_, size_, traffic(), std::move(name), meter());
}

Event ImaginedGroup::start(Operation op, Stream& stream) const {
  meter()->flew(traffic(), 0, op.wire_bytes(rank_, size_));
  const bool on_host =
      (op.out.defined() ? op.out : op.in).defined() && (op.out.defined() ? op.out : op.in).storage()->on_host();
  switch (op.kind) {
    case Kind::all_gather:
      give_to_all(op, size_, stream);
      break;
    case Kind::all_reduce:
      on_host ? add_up(op, size_) : forget(op.out, stream);
      break;
    case Kind::all_to_all:
      on_host ? exchange(op, rank_, stream) : forget(op.out, stream);
      break;
    case Kind::reduce_scatter:
    case Kind::receive:
      require(!on_host, "[imagined group] ", name(), ": the other ranks' values are not known for ", op.to_string());
      forget(op.out, stream);
      break;
    case Kind::broadcast:
    case Kind::send:
    case Kind::barrier:
      break;
  }
  return op.is_point_to_point() ? Event() : over_when_awaited(op);
}

}  // namespace hexad::comm
