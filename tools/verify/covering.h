// Choice of runs: every legal mesh, and every pair of settings somewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/verify/variant.h"

namespace hexad::verify {

/// Why a variant cannot be run ("model.heads must be divisible by parallel.tp"), or nothing when it can.
using Illegal = std::function<std::string(const Variant&)>;

struct Covering {
  std::vector<Variant> runs;               // legal meshes in the order given, then those that more pairs needed
  int64_t meshes = 0;                      // legal ones
  std::map<std::string, int64_t> refused;  // illegal meshes by reason
  int64_t pairs = 0;                       // that some run can show, all of which `runs` show
  std::vector<std::string> impossible;     // "pipeline=zb_v with cp>1": pairs that no legal variant shows
};

/// A pair is two values of two options, or a value of an option and an axis longer than one, on a mesh where the
/// options matter. Greedy: each mesh gets the options that show most new pairs; pairs still missing get runs of their
/// own. A pure function of its arguments; `seed` decides between equally good choices.
Covering cover(const std::vector<MeshSizes>& meshes, const Illegal& illegal, uint64_t seed);

}  // namespace hexad::verify
