// Duel between two ways to compute the same tensors: a plain way, which is always right, and a candidate, which may be
// faster. On a card on which the candidate was never tested, it may be wrong or slow.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

/// Way to compute tensors. Returns its results.
using Way = std::function<std::vector<Tensor>(Stream&)>;

/// Rows [begin, end) that both ways write, in tensors [R, ...].
struct ContestRows {
  int64_t begin, end;
};

/// Results of contests.
struct DuelScore {
  int64_t contests = 0;
  double plain_seconds = 0, candidate_seconds = 0;  // mean seconds of a computation, summed over the contests
  /// Largest difference between both results, as a multiple of the tolerance (base::tolerance). A difference is the
  /// relative error of a piece of a row, in the Euclidean norm.
  double error = 0;
  std::string failure{};  // message of an exception during a contest, such as a lack of memory; empty: there was none

  /// True if there was a contest, and all results of the candidate were right.
  bool agrees() const { return contests > 0 && failure.empty() && error <= 1; }
  /// True if the candidate is right and at least 1% faster than the plain way.
  bool favours_candidate() const { return agrees() && candidate_seconds < 0.99 * plain_seconds; }
};

/// Collects contests until the winner is decided. One thread uses a duel.
class Duel {
 public:
  enum class Winner : uint8_t { plain, candidate };

  /// Computes the results of the plain way, and returns them. Exceptions of this computation propagate. Then runs a
  /// contest: both ways run several more times, and an exception ends the contest. The stream is idle after a contest
  /// without an exception. `terms` is the largest number of terms that are summed for an element; it determines the
  /// tolerance. There is no contest without rows, after `most` contests, and once a contest has ended by an exception.
  std::vector<Tensor> contest(Stream& s, const Way& plain, const Way& candidate, ContestRows rows, int64_t terms);

  static constexpr int64_t most = 64;  // contests

  const DuelScore& score() const { return score_; }
  /// Sets the winner. Later computations should use its way, and have no contests.
  void decide(Winner winner) { winner_ = winner; }
  /// Returns the winner; none if it is not decided.
  std::optional<Winner> winner() const { return winner_; }

 private:
  void run_candidate(Stream& s, const std::vector<Tensor>& right, const Way& plain, const Way& candidate,
                     ContestRows rows, int64_t terms);

  DuelScore score_;
  std::optional<Winner> winner_;
};

}  // namespace hexad::kernels
