// Placement of a parameter on the mesh: the part that each rank has. Checkpoints, optimizers and gradient reductions
// use this plain data and never derive the part from the name of a parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/shape.h"

namespace hexad::base {

/// Axes of the mesh. Dense layers use pp x dp x cp x tp; experts use pp x edp x ep x etp.
enum class Axis : uint8_t { pp, dp, cp, tp, edp, ep, etp };

/// Division of dimension `dim` of the global tensor into `parts` pieces along `axis`. This rank has piece `index`.
/// Piece i of a dimension of n elements is [n * i / parts, n * (i + 1) / parts). The sizes of pieces differ by at most
/// 1.
struct Shard {
  Axis axis;
  int dim;
  int parts;
  int index;

  int64_t begin(int64_t n) const { return n * index / parts; }
  int64_t end(int64_t n) const { return n * (index + 1) / parts; }
};

/// View of the mesh. It determines which ranks have copies of a parameter and sum its gradient.
enum class MeshView : uint8_t { dense, expert };

struct Placement {
  MeshView view = MeshView::dense;
  std::vector<Shard> shards{};  // empty: each rank that has the parameter has the whole parameter
  /// Axes along which several ranks have the same piece, but each of these ranks computes only a part of the piece's
  /// gradient. The gradient is summed over these ranks in the same way as over data-parallel ranks. Along other axes
  /// with copies of a piece, every rank computes the whole gradient, so no sum is needed. Examples:
  /// - tp for norms under sequence parallelism, for routers, and for key/value heads that several ranks have;
  /// - etp for biases that are added only once;
  /// - pp for a tied embedding.
  std::vector<Axis> partial{};

  /// Rectangle of the global tensor that this rank has: first index and size in each dimension.
  struct Region {
    Shape begin, size;
  };
  Region region(const Shape& global) const {
    Region r{global, global};
    for (int d = 0; d < global.rank(); ++d) r.begin[d] = 0;
    for (const Shard& s : shards) {
      const int64_t n = r.size[s.dim];
      r.begin[s.dim] += s.begin(n);
      r.size[s.dim] = s.end(n) - s.begin(n);
    }
    return r;
  }
};

}  // namespace hexad::base
