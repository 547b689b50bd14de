// Variants of a run of one recipe: a mesh, and options that must not change the result.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/ordinal.h"
#include "parallel/mesh/layout.h"
#include "tools/verify/verify_names.h"

namespace hexad::verify {

/// Number of ranks along each of the seven axes: pp x dp x cp x tp in the dense view, pp x edp x ep x etp in the
/// experts' view.
struct MeshSizes {
  std::array<int, mesh::axis_count> sizes{1, 1, 1, 1, 1, 1, 1};

  int operator[](Axis axis) const { return sizes[base::ordinal(axis)]; }
  int& operator[](Axis axis) { return sizes[base::ordinal(axis)]; }
  int world() const { return (*this)[Axis::pp] * (*this)[Axis::dp] * (*this)[Axis::cp] * (*this)[Axis::tp]; }
  bool operator==(const MeshSizes&) const = default;
};

/// Returns every mesh of `world` ranks, even if a model forbids it. There are 10 meshes of 2 ranks, 46 of 4, 146 of 8.
std::vector<MeshSizes> meshes_of(int world);

/// Returns the simulated node of each of `world` ranks that are threads. If `world` is a power of two above 1, the
/// ranks are divided evenly between two nodes. As a result, every group is either within one node or divided evenly
/// between both. For any other `world`, all ranks are on one node.
std::vector<int> nodes_of_threads(int world);

/// True if every ep group of `layout` is on several nodes, with the same number of ranks on each, at least two. Rows
/// can then be exchanged in two steps, inside nodes and between nodes.
bool has_two_levels(const mesh::Layout& layout, const std::vector<int>& node_of_rank);

/// A setting with several values. The first value is the plain value.
struct Option {
  std::string name;  // name in lists of layouts
  std::string key;   // key of the recipe that gets the value; empty: see `sets`
  std::vector<std::string> values;
  std::function<bool(const MeshSizes&)> matters;  // returns false if the option has no effect on a mesh
  /// Overrides of the recipe for each value, if `key` is empty; empty if the option sets no key.
  std::vector<std::vector<std::string>> sets{};
};

/// Returns all options:
/// - sp, zero, cp_kind, expansion, order, recompute and worker_lanes: values of a key of the recipe (Option::key).
/// - pipeline: kind of pipeline. Each kind occurs without overlap. A kind that permits overlap of two micro-batches
///   also occurs with overlap.
/// - overlap: overlap of two micro-batches on a mesh without pipeline stages.
/// - bucket_bytes: the recipe's size of gradient buckets, or about 1 KiB.
/// - The choices of schedule.moe that are marked as varied in layers/moe/schedule/moe_choices.h.
/// - window: rows are exchanged through windows (ep::AllToAll::window), if each ep group is on one node.
/// - moe: division, overlap and order of the MoE layer's work, as in the recipe or different.
/// - memory_reuse: all values without a memory limit, s1 and s4 also with a limit.
/// - offload: offload of optimizer states.
/// - activations: kept for backward, or offloaded until then.
/// - transport: ranks that are threads communicate through shared memory, or exchange messages like processes.
/// - start: fresh; resumed, from the checkpoint that one rank saved after the first step; or trained, which
///   also resumes, but in the training loop of `hexad train`. There, an eventful subject starts from its initial
///   weights.
/// - subject: the recipe itself, or a variation of it (subject_kind.h), which has its own oracle.
std::span<const Option> options();

/// A mesh and a value for each option. The combination may be illegal for a recipe.
struct Variant {
  MeshSizes mesh;
  std::vector<int> choice;  // index into options()[i].values; 0 if the option has no effect

  explicit Variant(MeshSizes m = {}) : mesh(m), choice(options().size(), 0) {}
  bool operator==(const Variant&) const = default;

  /// Returns the value of an option.
  const std::string& operator[](std::string_view option) const;
  /// Sets `option` to `value`, which must be one of the option's values.
  void choose(std::string_view option, std::string_view value);
  /// True if the variant sets a memory limit for MoE layers. The recipe determines the number of bytes.
  bool has_memory_limit() const;
  /// Returns the number of threads of a rank's kernels. With a compute share below 1, there are two threads, one of
  /// which computes experts.
  int kernel_threads() const;
  /// Returns the overrides with which a recipe runs as this variant, including options with plain values. The value
  /// `own` has no override, because it keeps the recipe's setting. Excludes the memory limit and the subject's changes.
  std::vector<std::string> overrides() const;
  /// Returns the axes pp, dp, cp, tp and ep that are longer than one, and etp if it differs from tp, such as
  /// "pp=2,dp=2,tp=2,ep=4,etp=1". Returns "dp=1" for one rank.
  std::string mesh_text() const;
  /// Returns the options whose values are not plain: "sp=true,zero=1". Returns an empty text if all values are plain.
  std::string options_text() const;
  /// Returns mesh and options, as parse_layouts() reads them.
  std::string text() const;
};

/// Parses layouts such as "tp=2,cp=2;pp=2,ep=4,zero=1". Unnamed axes have length one, except that etp is tp. Unnamed
/// options have their plain values. dp and edp follow from `world`. Throws Error(usage) with the mistake and the legal
/// values.
std::vector<Variant> parse_layouts(std::string_view text, int world);

}  // namespace hexad::verify
