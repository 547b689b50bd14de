// Placement of a parameter on the mesh: plain data from which checkpoints, optimizers and gradient reduction derive
// what they need, never from a parameter's name.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/shape.h"

namespace hexad::base {

/// Mesh axes. Dense layers see pp x dp x cp x tp, experts see pp x edp x ep x etp.
enum class Axis : uint8_t { pp, dp, cp, tp, edp, ep, etp };

/// Dimension `dim` of the global tensor is cut into `parts` pieces along `axis`; this rank holds piece `index`. Of n
/// elements piece i is [n i / parts, n (i + 1) / parts): pieces are as even as they can be.
struct Shard {
  Axis axis;
  int dim;
  int parts;
  int index;

  int64_t begin(int64_t n) const { return n * index / parts; }
  int64_t end(int64_t n) const { return n * (index + 1) / parts; }
};

/// Mesh view that the parameter lives in: decides over which ranks it is replicated and its gradient summed.
enum class MeshView : uint8_t { dense, expert };

struct Placement {
  MeshView view = MeshView::dense;
  std::vector<Shard> shards{};  // empty: replicated over the whole view
  /// Axes along which several ranks hold the same piece and each computes only a part of its gradient, so that the
  /// gradient is summed over them as it is over data: tp for norms under sequence parallelism, for routers and for
  /// key/value heads held by several ranks; etp for biases added once; pp for a tied embedding. Where a piece is
  /// replicated along another axis, every rank computes its whole gradient and nothing is summed.
  std::vector<Axis> partial{};

  /// The rectangle of the global tensor held here: first element and size per dimension.
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
