// Placement of a parameter on the mesh. Checkpoints, optimizers and gradient reduction depend on this plain data, never
// on a parameter's name.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/shape.h"

namespace hexad::base {

/// Mesh axes. Dense layers use pp x dp x cp x tp; experts use pp x edp x ep x etp.
enum class Axis : uint8_t { pp, dp, cp, tp, edp, ep, etp };

/// Cut of the global tensor's dimension `dim` into `parts` pieces along `axis`. This rank holds piece `index`. Piece i
/// of a dimension of n elements is [n i / parts, n (i + 1) / parts). Sizes of pieces differ by at most 1.
struct Shard {
  Axis axis;
  int dim;
  int parts;
  int index;

  int64_t begin(int64_t n) const { return n * index / parts; }
  int64_t end(int64_t n) const { return n * (index + 1) / parts; }
};

/// Mesh view of the parameter. It determines the ranks that replicate the parameter and sum its gradient.
enum class MeshView : uint8_t { dense, expert };

struct Placement {
  MeshView view = MeshView::dense;
  std::vector<Shard> shards{};  // empty: replicated over the whole view
  /// Axes along which several ranks hold the same piece and each computes only a part of its gradient. The gradient is
  /// summed over these ranks as over data-parallel ranks. Along other axes that replicate a piece, every rank computes
  /// its whole gradient and no sum is needed. Examples:
  /// - tp for norms under sequence parallelism, for routers, and for key/value heads held by several ranks;
  /// - etp for biases added once;
  /// - pp for a tied embedding.
  std::vector<Axis> partial{};

  /// Rectangle of the global tensor that this rank holds: first element and size per dimension.
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
