#include "parallel/comm/large_group_plan.h"

#include <algorithm>
#include <utility>

#include "framework/base/block_sizes.h"
#include "parallel/comm/bytes.h"
#include "parallel/comm/message_plan_builder.h"
#include "parallel/comm/tree.h"

namespace hexad::comm {

using namespace base;

namespace {

using Kind = Operation::Kind;

class LargeGroupPlanner : public MessagePlanBuilder {
 public:
  using MessagePlanBuilder::MessagePlanBuilder;

  std::optional<MessagePlan> make() {
    if (!large() || !plan()) return {};
    return finished();
  }

 private:
  // Adds the rounds of the operation. Returns false, without rounds, if the operation is planned as in smaller groups.
  bool plan() {
    switch (op_.kind) {
      case Kind::all_reduce:
        return plan_all_reduce();
      case Kind::all_gather:
        if (!is_small(op_.in)) return false;
        all_gather();
        return true;
      case Kind::broadcast:
        is_small(op_.out) ? send_down(tree_place(rank_, op_.peer, size_)) : broadcast();
        return true;
      case Kind::barrier:
        barrier();
        return true;
      case Kind::reduce_scatter:
      case Kind::all_to_all:
      case Kind::send:
      case Kind::receive:
        return false;
    }
    return false;
  }

  bool plan_all_reduce() {
    const Tensor& x = op_.out;
    // Maxima, minima and sums of integers do not depend on how a tree groups the ranks.
    const bool any_grouping =
        op_.reduce != Reduce::sum || x.dtype() == Dtype::i32 || x.dtype() == Dtype::i64 || x.dtype() == Dtype::u8;
    if (any_grouping && x.bytes() <= max_single_message_bytes_)
      reduce_along_tree();
    else if (is_small(x) && size_ * x.bytes() <= block_sizes().scratch_bytes)
      reduce_gathered();
    else
      return false;
    return true;
  }

  // Gathers blocks in steps of doubling distance: in each step but the last, a rank doubles the number of adjacent
  // blocks that it has. In each of the log2(size) steps (rounded up), a rank sends at most two ranges of bytes, and
  // receives at most two. Altogether, a rank sends at most size - 1 blocks. Block b belongs to the rank with number b,
  // counted from `root`, and has the bytes [edge(b), edge(b + 1)) of `t`. The root receives nothing if `root_has_all`.
  template <class Edge>
  void gather(const Tensor& t, int root, bool root_has_all, const Edge& edge) {
    const int mine = (rank_ - root + size_) % size_;
    const auto blocks = [&](int peer, int first, int count) {  // blocks first, first + 1, ... modulo size
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

  void all_gather() {
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

  // Scatters one block per rank along a tree and then gathers the blocks. Each rank sends less than twice the bytes of
  // the tensor.
  void broadcast() {
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

  // Exchanges empty messages in steps of doubling distance. In each step, the number of ranks that are known to have
  // called the barrier doubles. Does not call add(), which would omit empty messages.
  void barrier() {
    for (int distance = 1; distance < size_; distance *= 2)
      plan_.rounds.push_back({.sends = {{(rank_ + distance) % size_, nullptr, 0}},
                              .receives = {{(rank_ + size_ - distance) % size_, nullptr, 0}},
                              .after = static_cast<int>(plan_.rounds.size()) - 1});
  }

  // Gathers small tensors and sums them in the order of the ranks.
  void reduce_gathered() {
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
  void reduce_along_tree() {
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
};

}  // namespace

std::optional<MessagePlan> make_large_group_plan(const Operation& op, int rank, int size, int64_t round_bytes) {
  return LargeGroupPlanner(op, rank, size, round_bytes).make();
}

}  // namespace hexad::comm
