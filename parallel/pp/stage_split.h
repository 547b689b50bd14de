// Assignment of layers to virtual stages.
#pragma once

#include <span>
#include <vector>

#include "parallel/pp/stage_map.h"

namespace hexad::pp {

/// Costs of the parts of the model for one micro-batch, in seconds, FLOPs or any other unit.
struct ModelCosts {
  std::vector<double> layers;
  double embedding = 0;  // additional cost of the first virtual stage
  double head = 0;       // additional cost of the last virtual stage: final norm, logits, loss
};

/// Returns the number of layers of each virtual stage, in the order of the model; each is at least one. Minimises the
/// cost of the most expensive stage, including embedding and head. Among splits with equal maximum, minimises the sum
/// of squares, which balances the other stages. Prefers more layers in the first stages if several splits remain.
/// Throws std::logic_error if there is no stage, or if there are fewer layers than stages.
std::vector<int64_t> balanced_split(const ModelCosts& costs, int stages);

class StageSplit {
 public:
  /// Uses `split`, the number of layers of each virtual stage, or balanced_split() if `split` is empty. Throws
  /// Error(usage) if the model has fewer layers than virtual stages, or if `split` is illegal for the model and the
  /// map. The message has the arithmetic and the legal values.
  StageSplit(const StageMap& stages, const std::vector<int64_t>& split, const ModelCosts& costs);

  struct Layers {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
    bool operator==(const Layers&) const = default;
  };
  Layers layers(int rank, int local_stage) const;
  bool has_embedding(int rank, int local_stage) const { return stages_.stage(rank, local_stage) == 0; }
  bool has_head(int rank, int local_stage) const { return stages_.stage(rank, local_stage) == stages_.last(); }
  const StageMap& stages() const { return stages_; }
  /// Returns the number of layers of each virtual stage.
  const std::vector<int64_t>& counts() const { return counts_; }
  /// Returns a text like "[3, 2, 2, 1]".
  std::string to_string() const;

 private:
  StageMap stages_;
  std::vector<int64_t> counts_, begins_;
};

}  // namespace hexad::pp
