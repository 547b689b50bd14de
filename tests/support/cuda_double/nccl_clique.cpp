#include "tests/support/cuda_double/nccl_clique.h"

#include <algorithm>
#include <cstring>

#include "tests/support/cuda_double/nccl_reduce.h"

namespace hexad::cuda_double {
namespace {

std::byte* at(void* p, size_t bytes) { return static_cast<std::byte*>(p) + bytes; }
const std::byte* at(const void* p, size_t bytes) { return static_cast<const std::byte*>(p) + bytes; }
void move(void* to, const void* from, size_t bytes) {
  if (bytes && to != from) std::memmove(to, from, bytes);
}

bool same(const NcclCall& a, const NcclCall& b) {
  const bool reduces = a.kind == NcclKind::all_reduce || a.kind == NcclKind::reduce_scatter;
  return a.kind == b.kind && a.registered == b.registered && a.count == b.count && a.type == b.type &&
         (!reduces || a.op == b.op) && (a.kind != NcclKind::broadcast || a.peer == b.peer);
}

}  // namespace

NcclWorld& nccl_world() {
  static NcclWorld world;
  return world;
}

size_t NcclCall::bytes() const { return count * size_of(type); }

Clique::Wire& Clique::wire_of(int rank, const NcclCall& call) {
  return call.kind == NcclKind::send ? wires_[{rank, call.peer}] : wires_[{call.peer, rank}];
}

bool Clique::connect(Lock& lock, int rank, const std::vector<NcclCall>& calls, const bool& gone) {
  for (const NcclCall& call : calls) {
    if (!call.is_message())
      connected_.insert(rank);
    else
      (call.kind == NcclKind::send ? wire_of(rank, call).sender : wire_of(rank, call).receiver) = true;
  }
  NcclWorld& world = nccl_world();
  world.changed.notify_all();
  const auto ready = [&](const NcclCall& call) {
    if (!call.is_message()) return connected_.size() == static_cast<size_t>(ranks_);
    const Wire& wire = wire_of(rank, call);
    return wire.sender && wire.receiver;
  };
  world.changed.wait(lock, [&] { return gone || std::all_of(calls.begin(), calls.end(), ready); });
  return !gone;
}

void Clique::perform(const std::map<int, NcclCall>& calls) const {
  const NcclCall& first = calls.begin()->second;
  const size_t bytes = first.bytes(), ranks = calls.size();
  std::vector<const void*> in;
  for (const auto& [rank, call] : calls) in.push_back(call.in);
  const auto from = [&](size_t offset) {
    std::vector<const void*> moved;
    for (const void* p : in) moved.push_back(at(p, offset));
    return moved;
  };
  switch (first.kind) {
    case NcclKind::all_reduce: {
      std::vector<std::byte> sum(bytes);
      size_t begin = 0;
      for (size_t r = 0; r < ranks; ++r) {  // the ring of part r ends at rank r
        const size_t end = first.count * (r + 1) / ranks, skip = begin * size_of(first.type);
        reduce_in_ring(sum.data() + skip, from(skip), end - begin, first.type, first.op, static_cast<int>(r));
        begin = end;
      }
      for (const auto& [rank, call] : calls) move(call.out, sum.data(), bytes);
      return;
    }
    case NcclKind::reduce_scatter:
      for (const auto& [rank, call] : calls)
        reduce_in_ring(call.out, from(static_cast<size_t>(rank) * bytes), call.count, call.type, call.op, rank);
      return;
    case NcclKind::all_gather:
      for (const auto& [rank, call] : calls)
        for (size_t r = 0; r < ranks; ++r) move(at(call.out, r * bytes), in[r], bytes);
      return;
    default:
      for (const auto& [rank, call] : calls) move(call.out, in[first.peer], bytes);
  }
}

void Clique::collective(Lock& lock, int rank, int64_t number, const NcclCall& call, const bool& gone) {
  auto& here = rendezvous_[number];
  here.emplace(rank, call);
  const bool all = here.size() == static_cast<size_t>(ranks_);
  if (all && std::all_of(here.begin(), here.end(), [&](const auto& other) { return same(other.second, call); })) {
    perform(here);
    rendezvous_.erase(number);
    done_.insert(number);
    nccl_world().changed.notify_all();
  }
  nccl_world().changed.wait(lock, [&] { return gone || done_.contains(number); });
  if (!done_.contains(number)) rendezvous_[number].erase(rank);
}

void Clique::match(Wire& wire) {
  while (!wire.sent.empty() && !wire.expected.empty()) {
    Message *from = wire.sent.front(), *to = wire.expected.front();
    if (from->call.bytes() != to->call.bytes()) return;  // sizes differ: both messages hang
    move(to->call.out, from->call.in, from->call.bytes());
    from->done = to->done = true;
    wire.sent.pop_front(), wire.expected.pop_front();
  }
}

void Clique::messages(Lock& lock, int rank, const std::vector<NcclCall>& calls, const bool& gone) {
  std::deque<Message> mine;
  const auto queue_of = [&](const Message& m) -> std::deque<Message*>& {
    Wire& wire = wire_of(rank, m.call);
    return m.call.kind == NcclKind::send ? wire.sent : wire.expected;
  };
  for (const NcclCall& call : calls) {
    mine.push_back({call});
    queue_of(mine.back()).push_back(&mine.back());
    match(wire_of(rank, call));
  }
  nccl_world().changed.notify_all();
  nccl_world().changed.wait(
      lock, [&] { return gone || std::all_of(mine.begin(), mine.end(), [](const Message& m) { return m.done; }); });
  for (Message& m : mine)
    if (!m.done) std::erase(queue_of(m), &m);
}

}  // namespace hexad::cuda_double
