#include "parallel/comm/signature.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace hexad::comm {

using namespace base;
namespace {

using Kind = Operation::Kind;

struct Header {
  Signature signature;
  std::array<char, 168> call{};  // text of the call, for error messages
};
static_assert(std::is_trivially_copyable_v<Header>);

// Headers that one rank exchanges with its peers, by peer. Owned by the message plan that sends and receives them.
struct Headers {
  std::vector<Header> sent, received;
};

std::byte* bytes_of(Header& h) { return reinterpret_cast<std::byte*>(&h); }

}  // namespace

Signature Signature::of(const Operation& op, int64_t number, int peer) {
  Signature s{.number = number, .kind = static_cast<int32_t>(op.kind), .reduce = static_cast<int32_t>(op.reduce)};
  const Tensor& t = op.kind == Kind::send ? op.in : op.out;
  if (t.defined()) s.dtype = static_cast<int32_t>(t.dtype());
  if (op.kind == Kind::broadcast) s.root = op.peer;
  if (op.kind == Kind::all_to_all) {
    s.row_bytes = comm::row_bytes(op.in);
    s.rows_to_peer = op.splits.send[peer];
    s.rows_from_peer = op.splits.receive[peer];
  } else if (t.defined()) {
    s.elements = t.numel();
  }
  return s;
}

Signature Signature::mirrored() const {
  Signature s = *this;
  std::swap(s.rows_to_peer, s.rows_from_peer);
  if (kind == static_cast<int32_t>(Kind::send)) s.kind = static_cast<int32_t>(Kind::receive);
  if (kind == static_cast<int32_t>(Kind::receive)) s.kind = static_cast<int32_t>(Kind::send);
  return s;
}

bool agree(const Operation& op_a, int a, const Operation& op_b, int b, int64_t number) {
  return Signature::of(op_a, number, b) == Signature::of(op_b, number, a).mirrored();
}

std::string disagreement(const std::string& group, int64_t number, int a, const std::string& call_a, int b,
                         const std::string& call_b) {
  return cat("[", group, "] ranks disagree about operation ", number, ": rank ", a, " calls ", call_a, ", rank ", b,
             " calls ", call_b, "; expected matching calls in the same order on all ranks");
}

void check_first(MessagePlan& plan, const Operation& op, const std::string& group, int64_t number, int rank, int size) {
  const auto headers = std::make_shared<Headers>();
  headers->sent.resize(size);
  headers->received.resize(size);
  const std::string call = op.call();
  Round round;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank || (op.is_point_to_point() && peer != op.peer)) continue;
    Header &sent = headers->sent[peer], &received = headers->received[peer];
    sent.signature = Signature::of(op, number, peer);
    call.copy(sent.call.data(), sent.call.size() - 1);
    if (op.kind != Kind::receive) round.sends.push_back({peer, bytes_of(sent), sizeof sent});
    if (op.kind != Kind::send) round.receives.push_back({peer, bytes_of(received), sizeof received});
  }
  round.finish = [headers, peers = round.receives, call, group, number, rank] {
    for (const Transfer& t : peers) {
      const size_t peer = t.peer;
      const Header& theirs = headers->received[peer];
      if (headers->sent[peer].signature != theirs.signature.mirrored())
        fail(ExitCode::communication, disagreement(group, number, rank, call, t.peer, theirs.call.data()));
    }
  };
  for (Round& r : plan.rounds) r.after = std::max(r.after + 1, 0);
  plan.rounds.insert(plan.rounds.begin(), std::move(round));
}

}  // namespace hexad::comm
