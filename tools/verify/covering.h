// Selects runs that cover every legal mesh and every pair of settings.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tools/verify/variant.h"

namespace hexad::verify {

/// Function that returns the reason why a variant is illegal ("model.heads must be divisible by parallel.tp"), or an
/// empty text if it is legal.
using Illegal = std::function<std::string(const Variant&)>;

struct Covering {
  std::vector<Variant> runs;               // legal meshes in the given order, then runs for the remaining pairs
  int64_t meshes = 0;                      // number of legal meshes
  std::map<std::string, int64_t> refused;  // number of illegal meshes by reason
  int64_t pairs = 0;                       // number of pairs that `runs` cover
  std::vector<std::string> impossible;     // pairs for which no legal variant was found: "pipeline=zb_v with cp>1"
};

/// Selects runs. A pair is two values of different options, or a value of an option and an axis longer than one. The
/// options of a pair must have an effect on the mesh. The selection is greedy: each mesh gets the options that cover
/// the most new pairs, and additional runs cover the remaining pairs. `seed` decides between equally good choices.
/// Equal arguments give equal results.
Covering cover(const std::vector<MeshSizes>& meshes, const Illegal& illegal, uint64_t seed);

}  // namespace hexad::verify
