// Assigns layers to virtual stages.
#pragma once

#include <span>
#include <vector>

#include "parallel/pp/stage_map.h"

namespace hexad::pp {

/// Seconds, FLOPs or any other unit of what a micro-batch costs in each part of the model.
struct ModelCosts {
  std::vector<double> layers;
  double embedding = 0;  // work of the first virtual stage besides its layers
  double head = 0;       // and of the last: final norm, logits, loss
};

/// Layers a virtual stage, in the model's order, at least one each: the split whose dearest stage costs least,
/// embedding and head counted where they are; among those the one with the least sum of squares, so that the others are
/// even, too; among those the one whose first stages have the most layers. Needs at least `stages` layers.
std::vector<int64_t> balanced_split(const ModelCosts& costs, int stages);

class StageSplit {
 public:
  /// `split`: layers of each virtual stage; empty: balanced_split(costs). Throws Error(usage), with the arithmetic and
  /// what would be legal, when it does not fit the model and the map.
  StageSplit(const StageMap& stages, const std::vector<int64_t>& split, const ModelCosts& costs);

  struct Layers {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
    bool operator==(const Layers&) const = default;
  };
  Layers layers(int rank, int chunk) const;
  bool has_embedding(int rank, int chunk) const { return stages_.stage(rank, chunk) == 0; }
  bool has_head(int rank, int chunk) const { return stages_.stage(rank, chunk) == stages_.last(); }
  const StageMap& stages() const { return stages_; }
  /// Layers by virtual stage.
  const std::vector<int64_t>& counts() const { return counts_; }
  /// "[3, 2, 2, 1]"
  std::string to_string() const;

 private:
  StageMap stages_;
  std::vector<int64_t> counts_, begins_;
};

}  // namespace hexad::pp
