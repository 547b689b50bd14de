// Assigns layers to virtual stages.
#pragma once

#include <span>
#include <vector>

#include "parallel/pp/stage_map.h"

namespace hexad::pp {

/// Costs of a micro-batch in each part of the model, in seconds, FLOPs or any other unit.
struct ModelCosts {
  std::vector<double> layers;
  double embedding = 0;  // work of the first virtual stage in addition to its layers
  double head = 0;       // additional work of the last virtual stage: final norm, logits, loss
};

/// Returns the number of layers of each virtual stage, in the model's order, at least one each. Minimises the cost of
/// the most expensive stage; embedding and head count in their stages. Of several such splits, returns the split with
/// the least sum of squares, so that the other stages are even too. If several have the same sum, returns the split
/// with the most layers in the first stages. Needs at least `stages` layers.
std::vector<int64_t> balanced_split(const ModelCosts& costs, int stages);

class StageSplit {
 public:
  /// Uses `split`, the layers of each virtual stage; if empty, balanced_split(costs). Throws Error(usage), with the
  /// arithmetic and the legal values, if `split` does not fit the model and the map.
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
  /// Returns the number of layers by virtual stage.
  const std::vector<int64_t>& counts() const { return counts_; }
  /// Returns "[3, 2, 2, 1]".
  std::string to_string() const;

 private:
  StageMap stages_;
  std::vector<int64_t> counts_, begins_;
};

}  // namespace hexad::pp
