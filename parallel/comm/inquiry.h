// Finds the rank to blame for a hang: follows the waits from one rank to a rank that waits for no other. Pure logic
// without a network.
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
  /// Starts an inquiry about a wait of rank `rank` that is overdue after `limit` seconds. `wait` describes the wait and
  /// lists the missing ranks. If it lists none, the operation waits for this rank's own work. `own` is the standing of
  /// the rank itself.
  Inquiry(int rank, Standing wait, Standing own, double limit);

  /// Returns the ranks to ask for their standing now. Each rank is returned once.
  std::vector<int> ranks_to_ask();
  void answer(int rank, Standing standing);
  /// Advances the time. Called at regular intervals. A rank that has not answered after `patience` calls counts as
  /// silent.
  void tick();
  static constexpr int patience = 25;
  /// True if every rank that was asked has answered or is silent.
  bool over() const;

  struct Finding {
    /// True if file work makes progress, so that there is no hang yet. In that case, inquire again when `limit`
    /// seconds may have passed since that work last moved.
    bool moves = false;
    double quiet_seconds = 0;  // seconds since that file work last moved
    bool silence = false;      // true if ranks are to blame because they do not answer
    std::string text{};        // report of a hang: the wait, the chain, "to blame: ..."
  };
  /// Returns the result. `name` returns the name of a rank with its host and process.
  Finding finding(const std::function<std::string(int)>& name) const;

 private:
  struct Node {
    int waiter = -1;  // rank that waits for this rank
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
