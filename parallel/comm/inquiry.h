// Finds the rank to blame for a hang: follows the waits from one rank to the rank that waits for nobody. Pure logic,
// which knows no network.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/comm/standing.h"

namespace hexad::comm {

class Inquiry {
 public:
  /// A wait of rank `rank` that is overdue after `limit` seconds. `wait` describes it and lists the missing ranks
  /// (none: the operation waits for this rank's own work). `own` says what the rank does besides.
  Inquiry(int rank, Standing wait, Standing own, double limit);

  /// Ranks to ask for their standing now; each comes once.
  std::vector<int> ranks_to_ask();
  void answer(int rank, Standing standing);
  /// Called at regular intervals. A rank that has not answered after `patience` calls is silent.
  void tick();
  static constexpr int patience = 25;
  /// True if every rank that was asked has answered or is silent.
  bool over() const;

  struct Finding {
    /// File work that moves is no hang: look again when it could have been still for the limit.
    bool moves = false;
    double quiet_seconds = 0;  // of that file work
    bool silence = false;      // ranks are to blame that do not answer
    std::string text{};        // of a hang: the wait, the chain, "to blame: ..."
  };
  /// `name` of a rank: with its host and process.
  Finding finding(const std::function<std::string(int)>& name) const;

 private:
  struct Node {
    int waiter = -1;  // who waits for it
    bool asked = false;
    int ticks = 0;
    std::optional<Standing> standing{};
  };
  void reach(int waiter, const std::vector<int>& ranks);
  bool silent(const Node& node) const { return !node.standing && node.ticks >= patience; }
  std::vector<int> ranks_where(const std::function<bool(const Node&)>& holds) const;
  std::string blame(const std::vector<int>& ranks, const std::function<std::string(int)>& name) const;

  const int rank_;
  const Standing wait_;
  const double limit_;
  std::map<int, Node> nodes_;  // by world rank
};

}  // namespace hexad::comm
