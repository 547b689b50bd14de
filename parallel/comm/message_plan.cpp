#include "parallel/comm/message_plan.h"

#include <algorithm>

#include "framework/base/block_sizes.h"
#include "parallel/comm/bytes.h"
#include "parallel/comm/large_group_plan.h"
#include "parallel/comm/message_plan_builder.h"

namespace hexad::comm {

using namespace base;

namespace {

using Kind = Operation::Kind;

struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Returns part `i` of `all`, which is divided into `parts` equal parts. The last parts may be shorter or empty.
Span part(Span all, int i, int parts) {
  const int64_t step = (all.size() + parts - 1) / parts;
  const auto edge = [&](int64_t k) { return std::min(all.begin + k * step, all.end); };
  return {edge(i), edge(i + 1)};
}

class Planner : public MessagePlanBuilder {
 public:
  using MessagePlanBuilder::MessagePlanBuilder;

  MessagePlan make() {
    switch (op_.kind) {
      case Kind::all_reduce:
        is_small(op_.out) && !large() ? all_reduce_small() : all_reduce();
        break;
      case Kind::reduce_scatter:
        reduce_scatter();
        break;
      case Kind::all_gather:
        all_gather();
        break;
      case Kind::all_to_all:
        all_to_all();
        break;
      case Kind::broadcast:
        is_small(op_.out) ? broadcast_small() : broadcast();
        break;
      case Kind::send:
        exchange({{op_.peer, byte_at(op_.in, 0), op_.in.bytes()}}, {}, piece_);
        break;
      case Kind::receive:
        exchange({}, {{op_.peer, byte_at(op_.out, 0), op_.out.bytes()}}, piece_);
        break;
      case Kind::barrier:
        barrier();
        break;
    }
    return finished();
  }

 private:
  // Peers of step k (1, 2, ...): destination and source. In each step, every rank receives one message. Ranks exchange
  // messages in pairs if the number of ranks is a power of two. Pairs also balance the load of the slower links between
  // nodes. For other numbers of ranks, the peers form a ring, in which the load of these links is less balanced.
  int receiver(int k) const { return pairs() ? rank_ ^ k : (rank_ + k) % size_; }
  int sender(int k) const { return pairs() ? rank_ ^ k : (rank_ + size_ - k) % size_; }
  bool pairs() const { return (size_ & (size_ - 1)) == 0; }
  int others() const { return size_ - 1; }

  void all_to_all() {
    const int64_t row = row_bytes(op_.in);
    std::vector<int64_t> from(size_ + 1), to(from);  // byte offsets of the ranks' parts in the input and in the output
    for (size_t r = 0; r < static_cast<size_t>(size_); ++r) {
      from[r + 1] = from[r] + op_.splits.send[r] * row;
      to[r + 1] = to[r] + op_.splits.receive[r] * row;
    }
    const auto transfer = [](const Tensor& t, const std::vector<int64_t>& offsets, int peer) {
      const size_t p = peer;
      return Transfer{peer, byte_at(t, offsets[p]), offsets[p + 1] - offsets[p]};
    };
    const Transfer mine = transfer(op_.in, from, rank_);
    if (copies_own()) copy_bytes(transfer(op_.out, to, rank_).data, mine.data, mine.bytes);
    std::vector<Transfer> sends, receives;
    for (int k = 1; k < size_; ++k) {
      sends.push_back(transfer(op_.in, from, receiver(k)));
      receives.push_back(transfer(op_.out, to, sender(k)));
    }
    exchange(sends, receives, piece_);
  }

  void all_gather() {
    const int64_t bytes = op_.in.bytes();
    if (copies_own()) copy_bytes(byte_at(op_.out, rank_ * bytes), op_.in.raw(), bytes);
    std::vector<Transfer> sends, receives;
    for (int k = 1; k < size_; ++k) {
      sends.push_back({receiver(k), byte_at(op_.in, 0), bytes});
      const int from = sender(k);
      receives.push_back({from, byte_at(op_.out, from * bytes), bytes});
    }
    exchange(sends, receives, piece_);
  }

  void broadcast_small() {
    const Tensor& x = op_.out;
    if (rank_ != op_.peer) return exchange({}, {{op_.peer, byte_at(x, 0), x.bytes()}}, piece_);
    std::vector<Transfer> sends;
    for (int k = 1; k < size_; ++k) sends.push_back({receiver(k), byte_at(x, 0), x.bytes()});
    exchange(sends, {}, piece_);
  }

  // Broadcasts in segments of one piece per rank. The root scatters a segment, and the ranks then exchange the pieces.
  // Each rank sends less than twice the bytes of the tensor.
  void broadcast() {
    const Tensor& x = op_.out;
    const int root = op_.peer;
    std::vector<int> scattered;  // index of the first round of each segment
    const auto transfer = [&](int64_t s, int owner, int peer) {
      const Span p = part({s * piece_ * size_, std::min((s + 1) * piece_ * size_, x.bytes())}, owner, size_);
      return Transfer{peer, byte_at(x, p.begin), p.size()};
    };
    const auto exchange_parts = [&](int64_t s) {
      Round round{.after = scattered[s]};
      for (int k = 1; k < size_; ++k) {
        const int to = receiver(k), from = sender(k);
        if (to != root) round.sends.push_back(transfer(s, rank_, to));
        if (rank_ != root) round.receives.push_back(transfer(s, from, from));
      }
      add(std::move(round));
    };
    const int64_t segments = (x.bytes() + piece_ * size_ - 1) / (piece_ * size_);
    for (int64_t s = 0; s < segments; ++s) {
      Round round;
      if (rank_ == root)
        for (int k = 1; k < size_; ++k) round.sends.push_back(transfer(s, receiver(k), receiver(k)));
      else
        round.receives.push_back(transfer(s, rank_, root));
      scattered.push_back(add(std::move(round)));
      if (s > 0) exchange_parts(s - 1);
    }
    exchange_parts(segments - 1);
  }

  // Exchanges empty messages. Does not call add(), which would omit them.
  void barrier() {
    Round round;
    for (int k = 1; k < size_; ++k) {
      round.sends.push_back({receiver(k), nullptr, 0});
      round.receives.push_back({sender(k), nullptr, 0});
    }
    plan_.rounds.push_back(std::move(round));
  }

  // Allocates memory for `times` sets of slots. A set has one slot for a piece of every other rank, in the order of the
  // steps: slot k - 1 is for sender(k).
  std::byte* scratch(int64_t bytes_each, int times) {
    return byte_at(scratch_tensor(times * others() * bytes_each), 0);
  }

  // Returns a function that sums this rank's own piece, `mine`, and the received pieces in `slots`. Pieces are added in
  // the order of the ranks. The function writes the sum to `out`.
  std::function<void()> sum(std::byte* out, const std::byte* mine, const std::byte* slots, int64_t slot_bytes,
                            int64_t count) const {
    std::vector<const void*> sources(size_, mine);
    for (int k = 1; k < size_; ++k) sources[sender(k)] = slots + (k - 1) * slot_bytes;
    return reduction(out, std::move(sources), count);
  }

  void all_reduce_small() {
    const Tensor& x = op_.out;
    std::byte* slots = scratch(x.bytes(), 1);
    Round round;
    for (int k = 1; k < size_; ++k) {
      round.sends.push_back({receiver(k), byte_at(x, 0), x.bytes()});
      round.receives.push_back({sender(k), slots + (k - 1) * x.bytes(), x.bytes()});
    }
    round.finish = sum(byte_at(x, 0), byte_at(x, 0), slots, x.bytes(), x.numel());
    add(std::move(round));
  }

  // Number of sets of slots: one set is filled while the other set is summed. A set is reused only after its sums are
  // done.
  static constexpr int sets = 2;

  // Returns the maximum bytes of a slot. In large groups, all slots together have at most about
  // BlockSizes::scratch_bytes.
  int64_t slot_limit() const {
    if (!large()) return piece_;
    return std::min(piece_, std::max<int64_t>(64, block_sizes().scratch_bytes / (sets * others()) / 64 * 64));
  }

  // Returns the round that writes the sum of this rank's part to `out`. part_of(r) is the part that rank r sums, as a
  // range of bytes in `in`.
  template <class PartOf>
  Round reduce_round(const Tensor& in, std::byte* out, std::byte* slots, int64_t slot_bytes, PartOf part_of) const {
    Round round;
    const Span mine = part_of(rank_);
    for (int k = 1; k < size_; ++k) {
      const Span theirs = part_of(receiver(k));
      round.sends.push_back({receiver(k), byte_at(in, theirs.begin), theirs.size()});
      round.receives.push_back({sender(k), slots + (k - 1) * slot_bytes, mine.size()});
    }
    round.finish = sum(out, byte_at(in, mine.begin), slots, slot_bytes, mine.size() / size_of(in.dtype()));
    return round;
  }

  void reduce_scatter() {
    const int64_t bytes = op_.out.bytes(), piece = slot_limit(), slot = std::min(piece, bytes);
    std::byte* slots = scratch(slot, sets);
    for (int64_t begin = 0, s = 0; begin < bytes; begin += piece, ++s) {
      Round round = reduce_round(op_.in, byte_at(op_.out, begin), slots + s % sets * others() * slot, slot, [&](int r) {
        return Span{r * bytes + begin, r * bytes + std::min(begin + piece, bytes)};
      });
      round.after = static_cast<int>(s) - sets;
      add(std::move(round));
    }
  }

  // Reduces in segments of one piece per rank. The sums of segment s - 1 are gathered while the pieces of segment s are
  // scattered.
  void all_reduce() {
    const Tensor& x = op_.out;
    const int64_t element = size_of(x.dtype()), piece = slot_limit(), segment = piece / element * size_;
    const int64_t slot = std::min(piece, (x.numel() + size_ - 1) / size_ * element);
    std::byte* slots = scratch(slot, sets);
    std::vector<int> summed;  // index of the first round of each segment
    const auto part_of = [&](int64_t s, int r) {
      const Span p = part({s * segment, std::min((s + 1) * segment, x.numel())}, r, size_);
      return Span{p.begin * element, p.end * element};
    };
    const auto gather = [&](int64_t s) {
      Round round{.after = summed[s]};
      const Span mine = part_of(s, rank_);
      for (int k = 1; k < size_; ++k) {
        const int from = sender(k);
        const Span theirs = part_of(s, from);
        round.sends.push_back({receiver(k), byte_at(x, mine.begin), mine.size()});
        round.receives.push_back({from, byte_at(x, theirs.begin), theirs.size()});
      }
      add(std::move(round));
    };
    const int64_t segments = (x.numel() + segment - 1) / segment;
    for (int64_t s = 0; s < segments; ++s) {
      Round round = reduce_round(x, byte_at(x, part_of(s, rank_).begin), slots + s % sets * others() * slot, slot,
                                 [&](int r) { return part_of(s, r); });
      if (s >= sets) round.after = summed[s - sets];
      summed.push_back(add(std::move(round)));
      if (s > 0) gather(s - 1);
    }
    if (segments > 0) gather(segments - 1);
  }
};

}  // namespace

Volume Round::volume() const {
  Volume total;
  for (const Transfer& t : sends) total.sent += t.bytes;
  for (const Transfer& t : receives) total.received += t.bytes;
  return total;
}

MessagePlan make_message_plan(const Operation& op, int rank, int size, int64_t round_bytes) {
  if (auto plan = make_large_group_plan(op, rank, size, round_bytes)) return std::move(*plan);
  return Planner(op, rank, size, round_bytes).make();
}

}  // namespace hexad::comm
