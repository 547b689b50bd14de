#include "parallel/comm/message_plan.h"

#include <algorithm>

#include "framework/base/block_sizes.h"

#include "parallel/comm/bytes.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/tree.h"

namespace hexad::comm {

using device::Category;
using namespace base;

namespace {

using Kind = Operation::Kind;

struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Returns part `i` of `all` when it is divided into `parts` nearly equal parts.
Span part(Span all, int i, int parts) {
  const int64_t step = (all.size() + parts - 1) / parts;
  const auto edge = [&](int64_t k) { return std::min(all.begin + k * step, all.end); };
  return {edge(i), edge(i + 1)};
}

class Planner {
 public:
  Planner(const Operation& op, int rank, int size, int64_t round_bytes)
      : op_(op),
        rank_(rank),
        size_(size),
        // Pieces are multiples of 64 bytes, to keep the alignment of the tensors.
        piece_(piece_of(round_bytes / (op.is_point_to_point() ? 1 : std::max(1, size - 1)))),
        lone_piece_(piece_of(round_bytes)) {}

  MessagePlan make() {
    switch (op_.kind) {
      case Kind::all_reduce:
        plan_all_reduce();
        break;
      case Kind::reduce_scatter:
        reduce_scatter();
        break;
      case Kind::all_gather:
        large() && is_small(op_.in) ? all_gather_small() : all_gather();
        break;
      case Kind::all_to_all:
        all_to_all();
        break;
      case Kind::broadcast:
        plan_broadcast();
        break;
      case Kind::send:
        exchange({{op_.peer, byte_at(op_.in, 0), op_.in.bytes()}}, {}, piece_);
        break;
      case Kind::receive:
        exchange({}, {{op_.peer, byte_at(op_.out, 0), op_.out.bytes()}}, piece_);
        break;
      case Kind::barrier:
        large() ? barrier_in_steps() : barrier();
        break;
    }
    if (plan_.rounds.empty()) plan_.rounds.emplace_back();
    return std::move(plan_);
  }

 private:
  // Peers of step k (1, 2, ...): destination and source. In each step, every rank receives one message. If the number
  // of ranks is a power of two, ranks exchange messages in pairs, which also balances the slower links between nodes.
  // For any other number, the peers form a ring. In a ring, all ranks of a node first send to the same rank of the next
  // node, and that rank gets its messages last.
  int receiver(int k) const { return pairs() ? rank_ ^ k : (rank_ + k) % size_; }
  int sender(int k) const { return pairs() ? rank_ ^ k : (rank_ + size_ - k) % size_; }
  // True if this plan must copy the message that the rank sends to itself. For device tensors, CardMessageGroup has
  // already copied it (card_messages.h).
  bool copies_own() const { return op_.out.device().on_host(); }
  bool pairs() const { return (size_ & (size_ - 1)) == 0; }
  int others() const { return size_ - 1; }
  static int64_t piece_of(int64_t bytes) { return std::max(block_sizes().message_bytes, bytes) / 64 * 64; }
  // True if the group is so large that a rank should not exchange messages with every other rank.
  bool large() const { return size_ > block_sizes().direct_ranks; }
  static bool is_small(const Tensor& t) { return t.bytes() <= block_sizes().whole_bytes; }

  void plan_all_reduce() {
    const Tensor& x = op_.out;
    if (!large()) return is_small(x) ? all_reduce_small() : all_reduce();
    // Maxima, minima and sums of integers do not depend on how a tree groups the ranks.
    const bool any_grouping =
        op_.reduce != Reduce::sum || x.dtype() == Dtype::i32 || x.dtype() == Dtype::i64 || x.dtype() == Dtype::u8;
    if (any_grouping && x.bytes() <= lone_piece_) return all_reduce_along_tree();
    if (is_small(x) && size_ * x.bytes() <= block_sizes().scratch_bytes) return all_reduce_gathered();
    all_reduce();
  }

  void plan_broadcast() {
    const Tensor& x = op_.out;
    if (!large()) return is_small(x) ? broadcast_small() : broadcast();
    is_small(x) ? send_down(tree_place(rank_, op_.peer, size_)) : broadcast_along_tree();
  }

  int add(Round round) {
    // Omits empty transfers. The peer knows the sizes and omits them too.
    const auto empty = [](const Transfer& t) { return t.bytes == 0; };
    std::erase_if(round.sends, empty);
    std::erase_if(round.receives, empty);
    plan_.rounds.push_back(std::move(round));
    return static_cast<int>(plan_.rounds.size()) - 1;
  }

  // Adds a round that starts once all earlier rounds have finished.
  void follow(Round round) {
    round.after = static_cast<int>(plan_.rounds.size()) - 1;
    add(std::move(round));
  }

  // Exchanges the transfers in pieces of at most `piece` bytes. A round contains the same piece of some transfers:
  // those of as many steps as fit into a round, and of at least direct_ranks steps. Element k of both lists is of the
  // same step, so the two ranks of a transfer divide it into the same rounds. The rounds start once rounds 0 to `after`
  // have finished.
  void exchange(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives, int64_t piece,
                int after = -1) {
    const auto steps = static_cast<size_t>(std::max<int64_t>(block_sizes().direct_ranks, lone_piece_ / piece));
    const auto pieces = [&](const std::vector<Transfer>& whole, int64_t begin, size_t first) {
      std::vector<Transfer> cut;
      for (size_t k = first; k < std::min(first + steps, whole.size()); ++k)
        if (const Transfer& t = whole[k]; begin < t.bytes)
          cut.push_back({t.peer, t.data + begin, std::min(piece, t.bytes - begin)});
      return cut;
    };
    int64_t longest = 0;
    for (const auto* list : {&sends, &receives})
      for (const Transfer& t : *list) longest = std::max(longest, t.bytes);
    for (int64_t begin = 0; begin < longest; begin += piece)
      for (size_t first = 0; first < std::max(sends.size(), receives.size()); first += steps) {
        Round round{.sends = pieces(sends, begin, first), .receives = pieces(receives, begin, first), .after = after};
        if (!round.sends.empty() || !round.receives.empty()) add(std::move(round));
      }
  }

  // Exchanges the transfers in pieces once all earlier rounds have finished.
  void follow(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives) {
    exchange(sends, receives, lone_piece_, static_cast<int>(plan_.rounds.size()) - 1);
  }

  void all_to_all() {
    const int64_t row = row_bytes(op_.in);
    std::vector<int64_t> from(static_cast<size_t>(size_) + 1), to(from);  // byte offset of each rank's part
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

  // Gathers blocks in steps of doubling distance: in each step, a rank doubles the number of adjacent blocks that it
  // has. Each rank sends and receives one message, or two, in each of log2(size) steps, and no more bytes than if it
  // sent its block to every rank. Block b is of the rank with number b, counted from `root`, and has the bytes
  // [edge(b), edge(b + 1)) of `t`. If `root_has_all`, the root receives nothing.
  template <class Edge>
  void gather(const Tensor& t, int root, bool root_has_all, const Edge& edge) {
    const int mine = (rank_ - root + size_) % size_;
    const auto blocks = [&](int peer, int first, int count) {  // of the numbers first, first + 1, ... modulo size
      const auto range = [&](int from, int to) {
        return Transfer{(peer + root) % size_, byte_at(t, edge(from)), edge(to) - edge(from)};
      };
      std::vector<Transfer> ranges{range(first, std::min(first + count, size_))};
      if (first + count > size_) ranges.push_back(range(0, first + count - size_));
      return ranges;
    };
    for (int distance = 1; distance < size_; distance *= 2) {
      const int count = std::min(distance, size_ - distance);
      const int to = (mine + size_ - distance) % size_, from = (mine + distance) % size_;
      std::vector<Transfer> sends, receives;
      if (!root_has_all || to != 0) sends = blocks(to, mine, count);
      if (!root_has_all || mine != 0) receives = blocks(from, from, count);
      follow(sends, receives);
    }
  }

  void all_gather_small() {
    const int64_t bytes = op_.in.bytes();
    if (copies_own()) copy_bytes(byte_at(op_.out, rank_ * bytes), op_.in.raw(), bytes);
    gather(op_.out, 0, false, [bytes](int block) { return block * bytes; });
  }

  // Receives the tensor from the parent and sends it to the children.
  void send_down(const TreePlace& place) {
    const Tensor& x = op_.out;
    if (place.parent >= 0) follow({.receives = {{place.parent, byte_at(x, 0), x.bytes()}}});
    Round round;
    for (const Subtree& child : place.children) round.sends.push_back({child.rank, byte_at(x, 0), x.bytes()});
    if (!round.sends.empty()) follow(std::move(round));
  }

  // Scatters one block per rank along a tree and then gathers the blocks. Each rank sends less than twice the tensor.
  void broadcast_along_tree() {
    const Tensor& x = op_.out;
    const int64_t step = (x.bytes() + size_ - 1) / size_;
    const auto edge = [step, bytes = x.bytes()](int block) { return std::min(block * step, bytes); };
    const TreePlace place = tree_place(rank_, op_.peer, size_);
    const auto blocks_of = [&](const Subtree& s, int peer) {
      return Transfer{peer, byte_at(x, edge(s.begin)), edge(s.end) - edge(s.begin)};
    };
    std::vector<Transfer> sends;
    for (auto child = place.children.rbegin(); child != place.children.rend(); ++child)  // the largest subtree first
      sends.push_back(blocks_of(*child, child->rank));
    if (place.parent >= 0) follow({}, {blocks_of(place.own, place.parent)});
    follow(sends, {});
    gather(x, op_.peer, true, edge);
  }

  void broadcast_small() {
    const Tensor& x = op_.out;
    if (rank_ != op_.peer) return exchange({}, {{op_.peer, byte_at(x, 0), x.bytes()}}, piece_);
    std::vector<Transfer> sends;
    for (int k = 1; k < size_; ++k) sends.push_back({receiver(k), byte_at(x, 0), x.bytes()});
    exchange(sends, {}, piece_);
  }

  // Broadcasts in segments of one piece per rank. The root scatters a segment, and the other ranks then exchange its
  // pieces. Each rank sends less than twice the tensor, whatever the number of segments.
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

  // Exchanges empty messages. Does not use add(), which omits empty messages.
  void barrier() {
    Round round;
    for (int k = 1; k < size_; ++k) {
      round.sends.push_back({receiver(k), nullptr, 0});
      round.receives.push_back({sender(k), nullptr, 0});
    }
    plan_.rounds.push_back(std::move(round));
  }

  // Passes a barrier in steps of doubling distance. After each step, a rank knows that twice as many ranks have called.
  void barrier_in_steps() {
    for (int distance = 1; distance < size_; distance *= 2)
      plan_.rounds.push_back({.sends = {{(rank_ + distance) % size_, nullptr, 0}},
                              .receives = {{(rank_ + size_ - distance) % size_, nullptr, 0}},
                              .after = static_cast<int>(plan_.rounds.size()) - 1});
  }

  // Allocates memory that the plan owns.
  Tensor scratch_tensor(int64_t bytes) {
    plan_.scratch.push_back(
        Tensor::empty({std::max<int64_t>(1, bytes)}, Dtype::u8, op_.out.device(), Category::communication));
    return plan_.scratch.back();
  }

  // Allocates memory for `times` pieces from every other rank, in the order of the steps: the piece of sender(k) goes
  // to slot k - 1.
  std::byte* scratch(int64_t bytes_each, int times) {
    return byte_at(scratch_tensor(times * others() * bytes_each), 0);
  }

  // Returns a function that writes a sum to `out`: the sum of `mine`, this rank's own piece, and of the received pieces
  // in `slots`, in the order of the ranks.
  std::function<void()> sum(std::byte* out, const std::byte* mine, const std::byte* slots, int64_t slot_bytes,
                            int64_t count) const {
    std::vector<const void*> sources(size_, mine);
    for (int k = 1; k < size_; ++k) sources[sender(k)] = slots + (k - 1) * slot_bytes;
    return reduction(out, std::move(sources), count);
  }

  // Returns a function that reduces `sources` to `out` in their order.
  std::function<void()> reduction(std::byte* out, std::vector<const void*> sources, int64_t count) const {
    return [out, sources = std::move(sources), count, dtype = op_.out.dtype(), op = op_.reduce] {
      reduce(out, sources, count, dtype, op);
    };
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

  // Sums small tensors in the order of the ranks, after gathering them.
  void all_reduce_gathered() {
    const Tensor& x = op_.out;
    const int64_t bytes = x.bytes();
    const Tensor all = scratch_tensor(size_ * bytes);
    copy_bytes(byte_at(all, rank_ * bytes), x.raw(), bytes);
    gather(all, 0, false, [bytes](int block) { return block * bytes; });
    std::vector<const void*> sources;
    for (int r = 0; r < size_; ++r) sources.push_back(byte_at(all, r * bytes));
    follow({.finish = reduction(byte_at(x, 0), std::move(sources), x.numel())});
  }

  // Reduces from the leaves of a tree to rank 0, and sends the result down the same tree.
  void all_reduce_along_tree() {
    const Tensor& x = op_.out;
    const TreePlace place = tree_place(rank_, 0, size_);
    if (!place.children.empty()) {
      const Tensor slots = scratch_tensor(static_cast<int64_t>(place.children.size()) * x.bytes());
      Round round;
      std::vector<const void*> sources{x.raw()};
      for (const Subtree& child : place.children) {
        std::byte* slot = byte_at(slots, static_cast<int64_t>(round.receives.size()) * x.bytes());
        round.receives.push_back({child.rank, slot, x.bytes()});
        sources.push_back(slot);
      }
      round.finish = reduction(byte_at(x, 0), std::move(sources), x.numel());
      follow(std::move(round));
    }
    if (place.parent >= 0) follow({.sends = {{place.parent, byte_at(x, 0), x.bytes()}}});
    send_down(place);
  }

  // Number of sets of slots: one set is filled while the other is summed. A set is reused only after its sums are done.
  static constexpr int sets = 2;
  // Maximum bytes of a slot. In large groups, all slots together have at most about scratch_bytes.
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

  const Operation& op_;
  const int rank_, size_;
  const int64_t piece_;       // maximum bytes of a message, if a round has a message to every rank
  const int64_t lone_piece_;  // maximum bytes of a message, if a round has only one message
  MessagePlan plan_;
};

}  // namespace

Volume Round::volume() const {
  Volume total;
  for (const Transfer& t : sends) total.sent += t.bytes;
  for (const Transfer& t : receives) total.received += t.bytes;
  return total;
}

MessagePlan make_message_plan(const Operation& op, int rank, int size, int64_t round_bytes) {
  return Planner(op, rank, size, round_bytes).make();
}

}  // namespace hexad::comm
