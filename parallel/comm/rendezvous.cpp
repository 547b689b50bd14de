#include "parallel/comm/rendezvous.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "parallel/comm/bytes.h"
#include "parallel/comm/inquiry.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/signature.h"

namespace hexad::comm {

using namespace base;
namespace {

using Kind = Operation::Kind;
using Operations = std::vector<const Operation*>;  // operations in the order of the ranks; a send and its receive if
                                                   // the operation is a message

// Returns the address of byte `bytes` in the given tensor of each operation.
std::vector<const void*> sources(const Operations& ops, Tensor Operation::*tensor, int64_t bytes) {
  std::vector<const void*> pointers;
  for (const Operation* op : ops) pointers.push_back(byte_at(op->*tensor, bytes));
  return pointers;
}

void all_reduce(const Operations& ops) {
  const Tensor& first = ops[0]->out;
  reduce(first.raw(), sources(ops, &Operation::out, 0), first.numel(), first.dtype(), ops[0]->reduce);
  for (const Operation* op : ops) copy_bytes(op->out.raw(), first.raw(), first.bytes());
}

void reduce_scatter(const Operations& ops) {
  int64_t offset = 0;
  for (const Operation* op : ops) {
    const Tensor& out = op->out;
    reduce(out.raw(), sources(ops, &Operation::in, offset), out.numel(), out.dtype(), Reduce::sum);
    offset += out.bytes();
  }
}

void all_gather(const Operations& ops) {
  for (const Operation* to : ops) {
    int64_t offset = 0;
    for (const Operation* from : ops) {
      copy_bytes(byte_at(to->out, offset), from->in.raw(), from->in.bytes());
      offset += from->in.bytes();
    }
  }
}

void all_to_all(const Operations& ops) {
  std::vector<int64_t> sent(ops.size());  // number of bytes copied from each sender so far
  for (size_t to = 0; to < ops.size(); ++to) {
    int64_t filled = 0;
    for (size_t from = 0; from < ops.size(); ++from) {
      const int64_t bytes = ops[from]->splits.send[to] * row_bytes(ops[from]->in);
      copy_bytes(byte_at(ops[to]->out, filled), byte_at(ops[from]->in, sent[from]), bytes);
      filled += bytes;
      sent[from] += bytes;
    }
  }
}

void perform(const Operations& ops) {
  switch (ops[0]->kind) {
    case Kind::all_reduce:
      return all_reduce(ops);
    case Kind::reduce_scatter:
      return reduce_scatter(ops);
    case Kind::all_gather:
      return all_gather(ops);
    case Kind::all_to_all:
      return all_to_all(ops);
    case Kind::broadcast: {
      const Tensor& root = ops[ops[0]->peer]->out;
      for (const Operation* op : ops) copy_bytes(op->out.raw(), root.raw(), root.bytes());
      return;
    }
    case Kind::send:
      return copy_bytes(ops[1]->out.raw(), ops[0]->in.raw(), ops[0]->in.bytes());
    case Kind::receive:
      return copy_bytes(ops[0]->out.raw(), ops[1]->in.raw(), ops[1]->in.bytes());
    case Kind::barrier:
      return;
  }
}

}  // namespace

// Returns the operations in the order of the ranks. Throws Error(communication) if two ranks do not call the same
// operation.
template <class Participants>
Operations agreed(const std::string& group, int64_t number, const Participants& participants) {
  Operations ops;
  for (auto a = participants.begin(); a != participants.end(); ++a) {
    ops.push_back(&a->second.op);
    for (auto b = std::next(a); b != participants.end(); ++b)
      if (!agree(a->second.op, a->first, b->second.op, b->first, number))
        fail(ExitCode::communication,
             disagreement(group, number, a->first, a->second.op.call(), b->first, b->second.op.call()));
  }
  return ops;
}

Rendezvous::Ticket Rendezvous::take(int rank, const Operation& op) {
  Ticket ticket;
  if (op.kind == Kind::send) ticket.from = rank, ticket.to = op.peer;
  if (op.kind == Kind::receive) ticket.from = op.peer, ticket.to = rank;
  std::lock_guard lock(mutex_);
  ticket.number = next_[rank][{ticket.from, ticket.to}]++;
  return ticket;
}

std::exception_ptr Rendezvous::missing(const Ticket& ticket, const Pending& pending) const {
  for (int r = 0; r < size(); ++r) {
    const bool needed = ticket.from < 0 || r == ticket.from || r == ticket.to;
    if (needed && gone_[r] && !pending.participants.contains(r))
      return std::make_exception_ptr(
          Error(ExitCode::peer_lost, cat("[", name_, "] rank ", r, " ended without joining ",
                                         pending.participants.begin()->second.op.to_string())));
  }
  return nullptr;
}

void Rendezvous::arrive(const Ticket& ticket, int rank, Operation op, std::shared_ptr<Flight> flight) {
  Pending pending;
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    Pending& here = pending_[ticket];
    here.participants.emplace(rank, Participant{std::move(op), std::move(flight)});
    error = aborted_ ? aborted_ : missing(ticket, here);
    const size_t needed = ticket.from < 0 ? next_.size() : 2;
    if (!error && here.participants.size() < needed) return;
    pending = std::move(here);
    pending_.erase(ticket);
  }
  if (!error) try {
      perform(agreed(name_, ticket.number, pending.participants));
    } catch (...) {
      error = std::current_exception();
    }
  for (auto& [r, participant] : pending.participants) {
    const int64_t bytes = error ? 0 : participant.op.wire_bytes(r, size());
    participant.end(bytes, error);
  }
}

void Rendezvous::Participant::end(int64_t bytes, std::exception_ptr error) {
  op = {};
  flight->complete(bytes, std::move(error));
}

void Rendezvous::abort(std::exception_ptr reason) {
  std::map<Ticket, Pending> waiting;
  std::map<std::pair<int64_t, int>, Child> children;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = reason;
    waiting.swap(pending_);
    children = children_;
  }
  for (auto& [ticket, pending] : waiting)
    for (auto& [rank, participant] : pending.participants) participant.end(0, reason);
  for (auto& [key, c] : children)
    if (const auto rendezvous = c.rendezvous.lock()) rendezvous->abort(reason);
}

void Rendezvous::leave(int rank) {
  std::vector<std::pair<Pending, std::exception_ptr>> failed;
  std::map<std::pair<int64_t, int>, Child> children;
  {
    std::lock_guard lock(mutex_);
    gone_[rank] = true;
    for (auto it = pending_.begin(); it != pending_.end();) {
      const std::exception_ptr error = missing(it->first, it->second);
      if (error) failed.emplace_back(std::move(it->second), error);
      it = error ? pending_.erase(it) : std::next(it);
    }
    children = children_;
  }
  for (auto& [pending, error] : failed)
    for (auto& [r, participant] : pending.participants) participant.end(0, error);
  for (auto& [key, c] : children) {
    const auto at = std::find(c.members.begin(), c.members.end(), rank);
    if (const auto rendezvous = c.rendezvous.lock(); rendezvous && at != c.members.end())
      rendezvous->leave(static_cast<int>(at - c.members.begin()));
  }
}

Rendezvous::Wait Rendezvous::wait_of(const Ticket& ticket, const Pending& pending) const {
  Wait wait{.here = {}, .missing = {}, .text = {}, .looks = pending.looks};
  for (int r = 0; r < size(); ++r) {
    const bool needed = ticket.from < 0 || r == ticket.from || r == ticket.to;
    if (needed) (pending.participants.contains(r) ? wait.here : wait.missing).push_back(world_ranks_[r]);
  }
  wait.text = cat("operation ", ticket.number, " of group ", name_, " (", size(), " ranks), ",
                  pending.participants.begin()->second.op.call(), ": ", list_of(wait.missing),
                  wait.missing.size() == 1 ? " has not arrived" : " have not arrived");
  return wait;
}

std::vector<Rendezvous::Wait> Rendezvous::look() {
  std::vector<Wait> waits;
  std::map<std::pair<int64_t, int>, Child> children;
  {
    std::lock_guard lock(mutex_);
    for (auto& [ticket, pending] : pending_) {
      ++pending.looks;
      waits.push_back(wait_of(ticket, pending));
    }
    children = children_;
  }
  for (auto& [key, c] : children)
    if (const auto rendezvous = c.rendezvous.lock()) {
      auto below = rendezvous->look();
      std::move(below.begin(), below.end(), std::back_inserter(waits));
    }
  return waits;
}

std::string overdue(const std::vector<Rendezvous::Wait>& waits, int limit) {
  const auto late = std::ranges::find_if(waits, [&](const Rendezvous::Wait& w) { return w.looks > limit; });
  if (late == waits.end()) return {};
  // All ranks are in this process. Therefore a rank that waits in no operation runs its own program.
  const auto standing_of = [&](int rank) {
    Standing standing;
    for (const Rendezvous::Wait& w : waits) {
      if (std::ranges::find(w.here, rank) == w.here.end()) continue;
      standing.kind = Standing::Kind::waits;
      standing.text = w.text;
      standing.missing.insert(standing.missing.end(), w.missing.begin(), w.missing.end());
    }
    return standing;
  };
  const int first = late->here.front();
  Inquiry inquiry(first, {Standing::Kind::waits, 0, late->missing, late->text}, standing_of(first), 0);
  while (!inquiry.over())
    for (int rank : inquiry.ranks_to_ask()) inquiry.answer(rank, standing_of(rank));
  return inquiry.finding([](int rank) { return cat("rank ", rank); }).text;
}

std::shared_ptr<Rendezvous> Rendezvous::child(int rank, const std::string& name, const std::vector<int>& members) {
  std::lock_guard lock(mutex_);
  Child& c = children_[{splits_[rank]++, members.front()}];
  auto rendezvous = c.rendezvous.lock();
  if (!rendezvous) {
    std::vector<int> world_ranks;
    for (int m : members) world_ranks.push_back(world_ranks_[m]);
    rendezvous = std::make_shared<Rendezvous>(name, std::move(world_ranks));
    rendezvous->aborted_ = aborted_;
    for (size_t i = 0; i < members.size(); ++i) rendezvous->gone_[i] = gone_[members[i]];
    c = {rendezvous, members};
  }
  return rendezvous;
}

}  // namespace hexad::comm
