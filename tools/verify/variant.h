// Ways to run one recipe on a number of ranks: a mesh, and options that must not change the result.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/ordinal.h"
#include "parallel/mesh/layout.h"

namespace hexad::verify {

using base::Axis;

/// Ranks along the seven axes: pp x dp x cp x tp in the dense view, pp x edp x ep x etp in the experts' view.
struct MeshSizes {
  std::array<int, mesh::axis_count> sizes{1, 1, 1, 1, 1, 1, 1};

  int operator[](Axis axis) const { return sizes[base::ordinal(axis)]; }
  int& operator[](Axis axis) { return sizes[base::ordinal(axis)]; }
  int world() const { return (*this)[Axis::pp] * (*this)[Axis::dp] * (*this)[Axis::cp] * (*this)[Axis::tp]; }
  bool operator==(const MeshSizes&) const = default;
};

/// Returns every mesh of `world` ranks, even if a model forbids it: 10 for 2 ranks, 46 for 4, 146 for 8.
std::vector<MeshSizes> meshes_of(int world);

/// Returns the node of each of `world` ranks that are threads. The ranks are divided evenly between two nodes if every
/// group is then inside one node, or evenly divided as well. Otherwise all ranks are on one node.
std::vector<int> nodes_of_threads(int world);

/// One setting with several values. The first value is the plain one.
struct Option {
  std::string name;  // name in lists of layouts
  std::string key;   // key of the recipe; empty for options of verify itself, and for options that set several keys
  std::vector<std::string> values;
  std::function<bool(const MeshSizes&)> matters;  // false: the option has no effect on this mesh
  /// Keys of the recipe that each value sets, for an option that sets several keys.
  std::vector<std::vector<std::string>> sets{};
};

/// Returns all options. If an option is one key of the recipe, its values are those of the key.
/// - sp, zero, pipeline, cp_kind, expansion, order, recompute, bucket_bytes and worker_lanes.
/// - overlap: overlap of two micro-batches.
/// - The choices of schedule.moe that its list marks as varied (layers/moe/schedule/moe_schedule.h).
/// - moe: division, overlap and order of the MoE layer's work, as in the recipe or otherwise.
/// - memory_reuse: all values without a memory limit, s1 and s4 also with a limit.
/// - offload: offload of optimizer states.
/// - activations: kept for backward, or offloaded until then.
/// - transport: ranks that are threads meet in memory, or exchange messages like processes.
/// - start: fresh; resumed, from the checkpoint that one rank saved after the first step; or trained, which resumes in
///   the loop of `hexad train`.
/// - subject: the recipe, or a subject of subject_kind.h, which has its own oracle.
std::span<const Option> options();

/// One way to run the recipe.
struct Variant {
  MeshSizes mesh;
  std::vector<int> choice;  // index into options()[i].values; 0 if the option has no effect

  explicit Variant(MeshSizes m = {}) : mesh(m), choice(options().size(), 0) {}
  bool operator==(const Variant&) const = default;

  /// Returns the value of an option.
  const std::string& operator[](std::string_view option) const;
  /// Sets an option to one of its values.
  void choose(std::string_view option, std::string_view value);
  /// True if the variant gives its MoE layers a memory limit. The recipe decides the number of bytes.
  bool has_memory_limit() const;
  /// Returns the keys with which a recipe runs as this variant, including plain options. Excludes the memory limit and
  /// the subject's changes.
  std::vector<std::string> overrides() const;
  /// Returns "pp=2,tp=2,ep=4,etp=1,dp=2": the axes longer than one, and etp if it differs from tp. Returns "dp=1" for
  /// one rank.
  std::string mesh_text() const;
  /// Returns "sp=true,zero=1": the options that are not plain. Empty if all are plain.
  std::string options_text() const;
  /// Returns mesh and options, as parse_layouts() reads them.
  std::string text() const;
};

/// Reads layouts: "tp=2,cp=2;pp=2,ep=4,zero=1". Axes that are not named are one, options have their plain values, and
/// etp is tp. dp and edp follow from `world`. Throws Error(usage) naming the mistake and the legal values.
std::vector<Variant> parse_layouts(std::string_view text, int world);

}  // namespace hexad::verify
