// Virtual stages, and the ranks to which they are assigned. Contains only arithmetic.
#pragma once

#include "parallel/pp/pipeline_kind.h"

namespace hexad::pp {

/// Assignment of virtual stages to ranks. A model is divided into ranks x stages_a_rank virtual stages, numbered in the
/// order in which a micro-batch passes through them. A local stage is the index of a virtual stage among the virtual
/// stages of its rank.
struct StageMap {
  int ranks = 1;
  int stages_a_rank = 1;
  Placing placing = Placing::loop;

  struct Place {
    int rank, local_stage;
    bool operator==(const Place&) const = default;
  };

  int stages() const { return ranks * stages_a_rank; }
  int last() const { return stages() - 1; }
  /// Returns the virtual stage that is local stage `local_stage` of rank `rank`.
  int stage(int rank, int local_stage) const {
    const bool back = placing == Placing::vee && local_stage == 1;
    return back ? last() - rank : local_stage * ranks + rank;
  }
  Place place(int stage) const {
    const bool back = placing == Placing::vee && stage >= ranks;
    return {back ? last() - stage : stage % ranks, stage / ranks};
  }
};

/// Returns the stage map for `ranks` pipeline ranks.
inline StageMap stage_map(const PipelineConfig& config, int ranks) {
  return {ranks, config.stages_a_rank(), config.placing()};
}

}  // namespace hexad::pp
