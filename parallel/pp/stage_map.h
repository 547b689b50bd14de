// Virtual stages, and the ranks to which they are assigned. Contains only arithmetic.
#pragma once

#include "parallel/pp/pipeline_kind.h"

namespace hexad::pp {

/// Assignment of virtual stages to ranks. A model is divided into ranks x chunks virtual stages, numbered in the order
/// in which a micro-batch passes through them.
struct StageMap {
  int ranks = 1;
  int chunks = 1;
  Placing placing = Placing::loop;

  struct Place {
    int rank, chunk;
    bool operator==(const Place&) const = default;
  };

  int stages() const { return ranks * chunks; }
  int last() const { return stages() - 1; }
  /// Returns the virtual stage of chunk `chunk` on rank `rank`.
  int stage(int rank, int chunk) const {
    const bool back = placing == Placing::vee && chunk == 1;
    return back ? last() - rank : chunk * ranks + rank;
  }
  Place place(int stage) const {
    const bool back = placing == Placing::vee && stage >= ranks;
    return {back ? last() - stage : stage % ranks, stage / ranks};
  }
};

/// Returns the stage map for `ranks` pipeline ranks.
inline StageMap stage_map(const PipelineConfig& config, int ranks) {
  return {ranks, config.chunks_a_rank(), config.placing()};
}

}  // namespace hexad::pp
