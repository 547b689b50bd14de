// Decision of `schedule.moe.fused: auto`: a trial in another process, then duels on the tensors of the first step.
#pragma once

#include <string>

#include "layers/moe/experts/fused_duels.h"
#include "tools/train/model/fused_trial.h"
#include "tools/train/model/training_state.h"
#include "tools/train/report/training_directory.h"

namespace hexad::train {

/// Decides, for each direction, whether the MoE layers of a run use the fused kernel (the candidate) or the plain
/// kernels.
class ExpertDuel {
 public:
  /// True if the recipe leaves the decision to duels: fused is auto, there are experts, and train.deterministic is not
  /// set.
  static bool wanted(const Recipe& recipe);

  /// Uses the decision `saved` of a checkpoint (Progress::fused) if this decision is for this device. Otherwise runs
  /// `prove` on every rank; each call starts a process. If `prove` is empty, or returns a reason on any rank, the plain
  /// kernels win in both directions. Construct the object before this rank opens its device, because the process of
  /// `prove` needs free GPU memory. Also construct the object before NCCL connects ranks. Otherwise, a hang of that
  /// process could block a GPU for which other ranks wait. Requires wanted(). Collective.
  ExpertDuel(const Recipe& recipe, const comm::World& world, const TrainingDirectory& directory,
             const ProveFused& prove, const std::string& saved);
  ExpertDuel(const ExpertDuel&) = delete;
  ExpertDuel& operator=(const ExpertDuel&) = delete;

  /// Lets this object choose the kernels of the model's MoE layers. This object must outlive the passes of these
  /// layers. If the decision is already taken, stores the decision in the progress.
  void enter(TrainingState& state);
  /// Decides after the first step, stores the decision in the progress, and logs it. Call this function after each
  /// step. The candidate wins a direction if its results were right on all ranks and it was at least 1% faster than the
  /// plain kernels. Each time is the time of the slowest rank. Does nothing if the decision is already taken.
  /// Collective.
  void end_step(TrainingState& state);

 private:
  void hold_trial(const ProveFused& prove);
  void decide_both(kernels::Duel::Winner winner, const std::string& why);
  void decide(kernels::Direction direction, kernels::Duel::Winner winner, const std::string& why);
  bool decided() const { return duels_.forward.winner() && duels_.backward.winner(); }
  /// Returns the text for Progress::fused.
  std::string text_of(kernels::Duel::Winner forward, kernels::Duel::Winner backward) const;
  /// Returns text_of() the winners.
  std::string decision() const { return text_of(*duels_.forward.winner(), *duels_.backward.winner()); }

  const Recipe& recipe_;
  const comm::World& world_;
  const TrainingDirectory& directory_;
  moe::FusedDuels duels_;
};

}  // namespace hexad::train
