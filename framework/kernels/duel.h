// Duel between two implementations of a computation. The plain implementation is always correct. The candidate may be
// faster, but it may be wrong or slow on a card on which it was never tested.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/kernels/kernel_operands.h"

namespace hexad::kernels {

/// Function that runs one of the two implementations and returns its results.
using Way = std::function<std::vector<Tensor>(Stream&)>;

/// Rows [begin, end) of the results [R, ...] that both implementations write. Only these rows are compared.
struct ContestRows {
  int64_t begin, end;
};

/// Results of the contests of a duel.
struct DuelScore {
  int64_t contests = 0;
  double plain_seconds = 0, candidate_seconds = 0;  // mean seconds of a computation, summed over the contests
  /// Largest error of the candidate, as a multiple of the tolerance (base::tolerance). An error is relative to the
  /// plain results, in the Euclidean norm over a piece of a row. For a vector, the norm is over several adjacent
  /// elements.
  double error = 0;
  std::string failure{};  // message of the exception that ended a contest; empty: no exception

  /// True if there was a contest, no contest threw an exception, and all results of the candidate were within the
  /// tolerance.
  bool agrees() const { return contests > 0 && failure.empty() && error <= 1; }
  /// True if the candidate agrees and takes less than 99% of the time of the plain implementation.
  bool favours_candidate() const { return agrees() && candidate_seconds < 0.99 * plain_seconds; }
};

/// Collects contests until the winner is decided. Not thread-safe.
class Duel {
 public:
  enum class Winner : uint8_t { plain, candidate };

  /// Returns the results of a first call of `plain`. Exceptions of this call are propagated. Before the return, runs a
  /// contest: both implementations run several times. An exception during the contest ends the contest, and
  /// score().failure keeps its message. After a contest without an exception, the stream is idle. The tolerance depends
  /// on `terms`, the largest number of terms that are summed for an element. It also depends on the least precise dtype
  /// of the results, because a result may be computed from other, rounded results. No contest runs if `rows` is empty,
  /// after `most` contests, or after a contest that threw an exception.
  std::vector<Tensor> contest(Stream& s, const Way& plain, const Way& candidate, ContestRows rows, int64_t terms);

  static constexpr int64_t most = 64;  // maximum number of contests

  const DuelScore& score() const { return score_; }
  /// Sets the winner. Callers should then use the winner's implementation, without contests.
  void decide(Winner winner) { winner_ = winner; }
  /// Returns the winner; nullopt if no winner has been set.
  std::optional<Winner> winner() const { return winner_; }

 private:
  void run_candidate(Stream& s, const std::vector<Tensor>& right, const Way& plain, const Way& candidate,
                     ContestRows rows, int64_t terms);

  DuelScore score_;
  std::optional<Winner> winner_;
};

}  // namespace hexad::kernels
