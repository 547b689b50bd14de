// The layers of a model as what they allocate, keep and free: mirrors layers/ and the ops that these use.
#pragma once

#include <span>

#include "tools/plan/memory_tape.h"
#include "tools/train/recipe.h"

namespace hexad::plan {

/// Which experts tokens choose, for what depends on it.
enum class RoutingLoad : uint8_t {
  even,     // every expert as many rows
  one_rank  // all tokens of all ranks choose experts of one rank, which is this one
};

/// The layers that a rank holds, with the rows that it has of a micro-batch.
class LayerSketch {
 public:
  LayerSketch(const train::Recipe& recipe, const mesh::Layout& layout, RoutingLoad load);

  /// Of an activation between blocks.
  double boundary_bytes() const { return rows_ * hidden_ * width_; }
  Place embed(MemoryTape& t) const;
  Place block(MemoryTape& t, const Place& x, int64_t layer) const;
  /// Final norm and loss.
  Place head(MemoryTape& t, const Place& x) const;

 private:
  using Segment = std::function<Place(MemoryTape&, const Place&)>;
  struct MoePass;

  Place checkpoint(MemoryTape& t, const Place& x, const Segment& segment) const;
  Place run(MemoryTape& t, const Place& x, int64_t layer, bool recompute_attention) const;
  Place norm(MemoryTape& t, const Place& x, double rows, double size) const;
  Place add(MemoryTape& t, const Place& a, const Place& b) const;
  std::vector<Place> column(MemoryTape& t, const Place& x, std::span<const double> outputs) const;
  Place row(MemoryTape& t, const Place& x, double inputs) const;
  Place attention(MemoryTape& t, const Place& x) const;
  Place mlp(MemoryTape& t, const Place& x, double size, bool gated) const;
  Place moe(MemoryTape& t, const Place& x) const;
  Place moe_pass(MemoryTape& t, const Place& x, const Place& weights) const;
  Place keep(MemoryTape& t, const Place& x, const Place& weights, const MoePass& pass) const;
  Place offload_or_recompute(MemoryTape& t, const Place& x, const Place& weights, const MoePass& pass) const;
  double most_rows() const;
  MoePass describe(bool restoring) const;

  const train::Recipe& recipe_;
  const layers::ModelConfig& model_;
  const double tp_, etp_, ep_;
  const double width_, acc_;  // bytes of an element, and of one that sums
  const double hidden_;
  const double all_rows_;  // of a micro-batch on this rank, before tp ranks share them
  const double rows_;      // between blocks
  const RoutingLoad load_;
};

}  // namespace hexad::plan
