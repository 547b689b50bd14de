// How a parameter lies on the mesh: plain data, so that checkpoints, optimizers and gradient reduction can derive what
// they need from it, and never from a parameter's name.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/shape.h"

namespace hexad::base {

/// Mesh axes. Dense layers see pp x dp x cp x tp, experts see pp x edp x ep x etp.
enum class Axis : uint8_t { pp, dp, cp, tp, edp, ep, etp };

/// Dimension `dim` of the global tensor is cut into `parts` equal pieces along `axis`; this rank holds piece `index`.
struct Shard {
  Axis axis;
  int dim;
  int parts;
  int index;
};

/// Which of the two views the parameter lives in: decides over which ranks it is replicated and its gradient summed.
enum class MeshView : uint8_t { dense, expert };

struct Placement {
  MeshView view = MeshView::dense;
  std::vector<Shard> shards;  // empty: replicated over the whole view

  /// The rectangle of the global tensor held here: first element and size per dimension.
  struct Region {
    Shape begin, size;
  };
  Region region(const Shape& global) const {
    Region r{global, global};
    for (int d = 0; d < global.rank(); ++d) r.begin[d] = 0;
    for (const Shard& s : shards) {
      r.size[s.dim] /= s.parts;
      r.begin[s.dim] += s.index * r.size[s.dim];
    }
    return r;
  }
};

}  // namespace hexad::base
