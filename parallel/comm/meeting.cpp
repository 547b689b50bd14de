#include "parallel/comm/meeting.h"

#include <algorithm>

#include "parallel/comm/bytes.h"
#include "parallel/comm/reduce.h"

namespace hexad::comm {
namespace {

using Kind = Operation::Kind;
using Operations = std::vector<const Operation*>;  // in rank order; of a send and its receive: two

// The ranks' tensors, advanced by `bytes`.
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
  std::vector<int64_t> sent(ops.size());  // bytes of each sender that are already delivered
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
      const Tensor& root = ops[static_cast<size_t>(ops[0]->peer)]->out;
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

bool agree(const Operation& a, int rank_a, const Operation& b, int rank_b) {
  if (a.is_point_to_point())
    return a.kind == Kind::send ? a.in.bytes() == b.out.bytes() && a.in.dtype() == b.out.dtype()
                                : agree(b, rank_b, a, rank_a);
  if (a.kind != b.kind || a.reduce != b.reduce || a.peer != b.peer) return false;
  if (a.kind == Kind::barrier) return true;
  if (a.out.dtype() != b.out.dtype()) return false;
  if (a.kind != Kind::all_to_all) return a.out.numel() == b.out.numel();
  const size_t i = static_cast<size_t>(rank_a), j = static_cast<size_t>(rank_b);
  return row_bytes(a.in) == row_bytes(b.in) && a.splits.send[j] == b.splits.receive[i] &&
         b.splits.send[i] == a.splits.receive[j];
}

}  // namespace

// The operations in rank order, once every pair of ranks has been found to mean the same.
template <class Party>
Operations agreed(const std::string& group, int64_t number, const Party& party) {
  Operations ops;
  for (auto a = party.begin(); a != party.end(); ++a) {
    ops.push_back(&a->second.op);
    for (auto b = std::next(a); b != party.end(); ++b)
      if (!agree(a->second.op, a->first, b->second.op, b->first))
        fail(ExitCode::communication, "[", group, "] ranks disagree about operation ", number, ": rank ", a->first,
             " calls ", a->second.op.to_string(), ", rank ", b->first, " calls ", b->second.op.to_string());
  }
  return ops;
}

Meeting::Ticket Meeting::take(int rank, const Operation& op) {
  Ticket ticket;
  if (op.kind == Kind::send) ticket.from = rank, ticket.to = op.peer;
  if (op.kind == Kind::receive) ticket.from = op.peer, ticket.to = rank;
  std::lock_guard lock(mutex_);
  ticket.number = next_[static_cast<size_t>(rank)][{ticket.from, ticket.to}]++;
  return ticket;
}

std::exception_ptr Meeting::missing(const Ticket& ticket, const Party& party) const {
  for (int r = 0; r < size(); ++r) {
    const bool needed = ticket.from < 0 || r == ticket.from || r == ticket.to;
    if (needed && gone_[static_cast<size_t>(r)] && !party.contains(r))
      return std::make_exception_ptr(Error(ExitCode::peer_lost, cat("[", name_, "] rank ", r, " ended without joining ",
                                                                    party.begin()->second.op.to_string())));
  }
  return nullptr;
}

void Meeting::arrive(const Ticket& ticket, int rank, Operation op, std::shared_ptr<Flight> flight) {
  Party party;
  std::exception_ptr error;
  {
    std::lock_guard lock(mutex_);
    Party& here = parties_[ticket];
    here.emplace(rank, Guest{std::move(op), std::move(flight)});
    error = aborted_ ? aborted_ : missing(ticket, here);
    const size_t needed = ticket.from < 0 ? next_.size() : 2;
    if (!error && here.size() < needed) return;
    party = std::move(here);
    parties_.erase(ticket);
  }
  if (!error) try {
      perform(agreed(name_, ticket.number, party));
    } catch (...) {
      error = std::current_exception();
    }
  for (auto& [r, guest] : party) guest.flight->complete(error ? 0 : guest.op.wire_bytes(r, size()), error);
}

void Meeting::abort(std::exception_ptr reason) {
  std::map<Ticket, Party> parties;
  std::map<std::pair<int64_t, int>, Child> children;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) return;
    aborted_ = reason;
    parties.swap(parties_);
    children = children_;
  }
  for (auto& [ticket, party] : parties)
    for (auto& [rank, guest] : party) guest.flight->complete(0, reason);
  for (auto& [key, c] : children)
    if (const auto meeting = c.meeting.lock()) meeting->abort(reason);
}

void Meeting::leave(int rank) {
  std::vector<std::pair<Party, std::exception_ptr>> failed;
  std::map<std::pair<int64_t, int>, Child> children;
  {
    std::lock_guard lock(mutex_);
    gone_[static_cast<size_t>(rank)] = true;
    for (auto it = parties_.begin(); it != parties_.end();) {
      const std::exception_ptr error = missing(it->first, it->second);
      if (error) failed.emplace_back(std::move(it->second), error);
      it = error ? parties_.erase(it) : std::next(it);
    }
    children = children_;
  }
  for (auto& [party, error] : failed)
    for (auto& [r, guest] : party) guest.flight->complete(0, error);
  for (auto& [key, c] : children) {
    const auto at = std::find(c.members.begin(), c.members.end(), rank);
    if (const auto meeting = c.meeting.lock(); meeting && at != c.members.end())
      meeting->leave(static_cast<int>(at - c.members.begin()));
  }
}

std::shared_ptr<Meeting> Meeting::child(int64_t split, const std::string& name, const std::vector<int>& members) {
  std::lock_guard lock(mutex_);
  Child& c = children_[{split, members.front()}];
  auto meeting = c.meeting.lock();
  if (!meeting) {
    meeting = std::make_shared<Meeting>(name, static_cast<int>(members.size()));
    meeting->aborted_ = aborted_;
    for (size_t i = 0; i < members.size(); ++i) meeting->gone_[i] = gone_[static_cast<size_t>(members[i])];
    c = {meeting, members};
  }
  return meeting;
}

}  // namespace hexad::comm
