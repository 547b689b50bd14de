// Determines which rank is to blame for a hang. Follows the waits from rank to rank until it finds a rank that waits
// for no other rank. Only computes; the caller sends the questions.
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
  /// lists the missing ranks. The list is empty if the operation waits for this rank itself. `own` is the standing of
  /// this rank.
  Inquiry(int rank, Standing wait, Standing own, double limit);

  /// Returns the ranks that must be asked for their standing now. Returns each rank only once.
  std::vector<int> ranks_to_ask();
  void answer(int rank, Standing standing);
  /// Advances the time. Must be called at regular intervals. A rank that has not answered after `patience` calls counts
  /// as silent.
  void tick();
  static constexpr int patience = 25;
  /// True if every rank that the inquiry has reached has answered or counts as silent.
  bool over() const;

  struct Finding {
    /// True if file work makes progress, so that there is no hang yet. The caller should start another inquiry once
    /// this work may have made no progress for `limit` seconds.
    bool moves = false;
    double quiet_seconds = 0;  // seconds since this file work last made progress
    bool silence = false;      // true if the ranks to blame are silent: they do not answer
    // Report of the hang: the wait, the chain of waits, "to blame: ...", what was expected, and what to do.
    std::string text{};
  };
  /// Returns the result. `name(rank)` returns the name of a rank for the report.
  Finding finding(const std::function<std::string(int)>& name) const;

 private:
  struct Node {
    int waiter = -1;  // the rank that waits for the rank of this node; -1: none
    bool asked = false;
    int ticks = 0;
    std::optional<Standing> standing{};
  };
  void reach(int waiter, const std::vector<int>& ranks);
  bool silent(const Node& node) const { return !node.standing && node.ticks >= patience; }
  std::vector<int> ranks_where(const std::function<bool(const Node&)>& holds) const;
  std::string hang_text(const std::vector<int>& ranks, const std::function<std::string(int)>& name,
                        const std::string& advice) const;

  const int rank_;
  const Standing wait_;
  const double limit_;
  std::map<int, Node> nodes_;  // keyed by world rank
};

}  // namespace hexad::comm
