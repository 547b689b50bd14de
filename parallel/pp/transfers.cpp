#include "parallel/pp/transfers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "framework/base/error.h"

namespace hexad::pp {
namespace {

using base::cat;
using base::require;

// Dependency graph, in which each node may wait for other nodes.
class Graph {
 public:
  explicit Graph(size_t nodes) : followers_(nodes), waits_(nodes) {}
  void add(int before, int after) { followers_[before].push_back(after), ++waits_[after]; }
  // Returns the nodes that do not wait forever. Each node comes after those for which it waits.
  std::vector<int> order() const {
    std::vector<int> waits = waits_, order;
    for (size_t node = 0; node < waits.size(); ++node)
      if (waits[node] == 0) order.push_back(static_cast<int>(node));
    for (size_t i = 0; i < order.size(); ++i)
      for (const int follower : followers_[order[i]])
        if (--waits[follower] == 0) order.push_back(follower);
    return order;
  }

 private:
  std::vector<std::vector<int>> followers_;
  std::vector<int> waits_;  // number of nodes for which each node waits
};

// Actions of a rank that begin together: one action, or a merged pair.
struct Piece {
  int rank;
  int begin, end;          // range of actions
  std::vector<int> needs;  // indices in sent_ of the messages from other ranks
};

// A message between two ranks. Pieces and messages are given as indices in pieces_ and sent_.
struct Sent {
  Message message;
  int by;           // piece that produces the message
  int done;         // number of the sender's actions that have ended when the message is sent
  int to;           // rank that receives the message
  int before = -1;  // the previous message with the same sender and receiver; -1: none
  int posted = -1;  // piece before which the receive is posted
};

// Pieces and messages of all ranks, and their dependencies if the ranks use devices. The entries of a rank are adjacent
// and in order.
class Devices {
 public:
  Devices(const Schedule& schedule, bool merge) : schedule_(schedule) {
    for (int rank = 0; rank < schedule.stages.ranks; ++rank) add_rank(rank, merge);
    for (int rank = 0; rank < schedule.stages.ranks; ++rank) post_receives(rank);
  }

  Transfers free_at_once() const { return {.ranks = posted_, .at_once = true}; }

  // Returns transfers that free each sent tensor late. Let a be the receiver's action before which the receive is
  // posted. The tensor is freed before the sender's first piece that is known to begin after the receiver has ended all
  // actions before a. With Freeing::latest, the receiver must also have ended a.
  Transfers free_once_posted(Freeing freeing) const {
    Transfers transfers{.ranks = posted_, .at_once = false};
    const std::vector<std::vector<int>> ended = actions_that_end_before(transfers);
    for (const Sent& s : sent_) {
      const auto& [rank, begin, end, needs] = pieces_[s.by];
      const auto after = ended.begin() + s.by + 1, last = ended.begin() + first_piece_[rank + 1];
      const int needed = pieces_[s.posted].begin + (freeing == Freeing::latest ? 1 : 0);
      const auto it = std::partition_point(after, last, [&](const auto& known) { return known[s.to] < needed; });
      if (it != last) transfers.ranks[rank][pieces_[it - ended.begin()].begin].frees.push_back(s.message);
    }
    return transfers;
  }

  // Returns the maximum of a difference over the pieces of `rank`: the number of sums that `rank` has begun, minus the
  // number of sums whose gradients rank `other` is known to have computed before the piece. Each backward of local
  // stage `local_stage` begins a sum.
  int most_unfinished_sums(int rank, int local_stage, int other) const {
    const std::vector<std::vector<int>> ended = actions_that_end_before({.ranks = posted_, .at_once = false});
    const std::vector<int> finished = micro_batches_with_all_gradients(other);
    int begun = 0, most = 0;
    for (int p = first_piece_[rank]; p < first_piece_[rank + 1]; ++p)
      for (int i = pieces_[p].begin; i < pieces_[p].end; ++i) {
        const Action& action = schedule_.ranks[rank][i];
        if (!action.is_backward() || action.local_stage != local_stage) continue;
        most = std::max(most, ++begun - finished[ended[p][other]]);
      }
    return most;
  }

  // Returns a text with the first action at which each rank waits forever; empty if no rank does.
  std::string waiting(const Transfers& transfers) const {
    std::vector<bool> ends(pieces_.size() + sent_.size());
    for (const int node : graph(transfers).order()) ends[node] = true;
    std::string text;
    for (int rank = 0; rank < schedule_.stages.ranks; ++rank)
      for (int p = first_piece_[rank]; p < first_piece_[rank + 1]; ++p) {
        if (ends[p]) continue;
        text += cat(text.empty() ? "" : ", ", "rank ", rank, " waits at ",
                    to_string(schedule_.ranks[rank][pieces_[p].begin]));
        break;
      }
    return text;
  }

 private:
  int node_of(int message) const { return static_cast<int>(pieces_.size()) + message; }
  bool is_first(int piece) const { return pieces_[piece].begin == 0; }

  void add_rank(int rank, bool merge) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    const int count = static_cast<int>(actions.size());
    std::map<int, int> last;  // index in sent_ of the last message to each receiver
    for (int begin = 0, end = 0; begin < count; begin = end) {
      end = begin + (merge && actions[begin].merged ? 2 : 1);
      for (int i = begin; i < end; ++i) {
        const auto message = made(schedule_.stages, rank, actions[i]);
        const int to = message ? receiver(schedule_.stages, *message) : rank;
        if (to == rank) continue;
        const int number = static_cast<int>(sent_.size());
        const int before = last.contains(to) ? last[to] : -1;
        sent_.push_back({*message, static_cast<int>(pieces_.size()), i + 1, to, before});
        number_[*message] = last[to] = number;
      }
      pieces_.push_back({rank, begin, end, {}});
    }
    first_piece_.push_back(static_cast<int>(pieces_.size()));
  }

  // Posts a receive after all earlier receives from the same sender, because messages between two ranks are matched
  // only by their order.
  void post_receives(int rank) {
    const std::vector<Action>& actions = schedule_.ranks[rank];
    const int count = static_cast<int>(actions.size());
    auto& before = posted_.emplace_back(count);
    for (int p = first_piece_[rank]; p < first_piece_[rank + 1]; ++p) {
      Piece& piece = pieces_[p];
      for (int i = piece.begin; i < std::min(piece.end + 1, count); ++i) {
        const auto message = needed(schedule_.stages, rank, actions[i]);
        if (!message || sender(schedule_.stages, *message) == rank) continue;
        const auto it = number_.find(*message);
        if (it == number_.end())
          base::fail_invariant(cat("[pp] no rank sends the tensor that ", to_string(actions[i]), " of rank ", rank,
                                   " needs; expected an action that makes it"));
        if (i < piece.end) piece.needs.push_back(it->second);
        std::vector<int> fresh;
        for (int m = it->second; m >= 0 && sent_[m].posted < 0; m = sent_[m].before) fresh.push_back(m);
        for (; !fresh.empty(); fresh.pop_back()) {
          sent_[fresh.back()].posted = p;
          before[piece.begin].receives.push_back(sent_[fresh.back()].message);
        }
      }
    }
  }

  // Returns, for each number of ended actions of `rank`, the number of micro-batches whose weight gradients are
  // complete in all virtual stages of `rank`.
  std::vector<int> micro_batches_with_all_gradients(int rank) const {
    std::vector<int> of_stage(schedule_.stages.stages_a_rank), all{0};
    for (const Action& action : schedule_.ranks[rank]) {
      if (action.kind == Action::Kind::backward || action.kind == Action::Kind::backward_weight)
        ++of_stage[action.local_stage];
      all.push_back(*std::ranges::min_element(of_stage));
    }
    return all;
  }

  // Returns, for each piece, the number of actions of each rank that are known to have ended before the piece begins.
  std::vector<std::vector<int>> actions_that_end_before(const Transfers& transfers) const {
    std::vector<std::vector<int>> ended(pieces_.size(), std::vector<int>(schedule_.stages.ranks));
    for (const int p : graph(transfers).order()) {
      if (p >= static_cast<int>(pieces_.size())) continue;
      std::vector<int>& known = ended[p];
      if (!is_first(p)) known = ended[p - 1];
      for (const int m : pieces_[p].needs) {
        const std::vector<int>& of_sender = ended[sent_[m].by];
        for (size_t r = 0; r < known.size(); ++r) known[r] = std::max(known[r], of_sender[r]);
        int& sender = known[pieces_[sent_[m].by].rank];
        sender = std::max(sender, sent_[m].done);
      }
      known[pieces_[p].rank] = pieces_[p].begin;
    }
    return ended;
  }

  // Returns a graph whose nodes are the pieces, followed by the messages. A message is done when it has been received.
  Graph graph(const Transfers& transfers) const {
    Graph graph(pieces_.size() + sent_.size());
    for (int p = 0; p < node_of(0); ++p) {
      const Piece& piece = pieces_[p];
      if (!is_first(p)) graph.add(p - 1, p);
      for (const int m : piece.needs) graph.add(node_of(m), p);
      for (const Message& freed : transfers.ranks[piece.rank][piece.begin].frees)
        graph.add(node_of(number_.at(freed)), p);
    }
    for (int m = 0; m < static_cast<int>(sent_.size()); ++m) {
      const Sent& s = sent_[m];
      graph.add(s.by, node_of(m));
      if (s.before >= 0) graph.add(node_of(s.before), node_of(m));
      if (!is_first(s.posted)) graph.add(s.posted - 1, node_of(m));
      const int next = s.by + 1;
      if (!transfers.at_once || next == first_piece_[pieces_[s.by].rank + 1]) continue;
      graph.add(node_of(m), next);
      for (const Message& received : transfers.ranks[pieces_[next].rank][pieces_[next].begin].receives)
        graph.add(node_of(m), node_of(number_.at(received)));
    }
    return graph;
  }

  const Schedule& schedule_;
  std::vector<Piece> pieces_;
  std::vector<int> first_piece_ = {0};  // first piece of each rank; the last entry is the number of pieces
  std::vector<Sent> sent_;
  std::map<Message, int> number_;
  std::vector<std::vector<Transfers::Before>> posted_;
};

}  // namespace

Transfers transfers(const Schedule& schedule, bool merge, Freeing freeing) {
  const Devices devices(schedule, merge);
  if (freeing == Freeing::latest) return devices.free_once_posted(freeing);
  const Transfers at_once = devices.free_at_once();
  return devices.waiting(at_once).empty() ? at_once : devices.free_once_posted(freeing);
}

int sums_in_flight(const Schedule& schedule, bool merge, int rank) {
  const StageMap::Place first = schedule.stages.place(0), last = schedule.stages.place(schedule.stages.last());
  if (first.rank == last.rank || (rank != first.rank && rank != last.rank)) return 0;
  const auto& [mine, other] = rank == first.rank ? std::pair(first, last) : std::pair(last, first);
  return Devices(schedule, merge).most_unfinished_sums(rank, mine.local_stage, other.rank);
}

void check(const Schedule& schedule, const Transfers& transfers, bool merge) {
  const std::string waiting = Devices(schedule, merge).waiting(transfers);
  require(waiting.empty(), "[pp] the schedule never ends on devices, which reuse freed memory: ", waiting,
          "; expected an order in which ranks do not wait for each other");
}

}  // namespace hexad::pp
