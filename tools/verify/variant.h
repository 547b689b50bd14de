// The ways in which one recipe can be run on a number of ranks: a mesh, and options that must not change the result.
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

/// Ranks along the seven axes: pp x dp x cp x tp, which experts see as pp x edp x ep x etp.
struct MeshSizes {
  std::array<int, mesh::axis_count> sizes{1, 1, 1, 1, 1, 1, 1};

  int operator[](Axis axis) const { return sizes[base::ordinal(axis)]; }
  int& operator[](Axis axis) { return sizes[base::ordinal(axis)]; }
  int world() const { return (*this)[Axis::pp] * (*this)[Axis::dp] * (*this)[Axis::cp] * (*this)[Axis::tp]; }
  bool operator==(const MeshSizes&) const = default;
};

/// Every mesh of `world` ranks, whatever a model allows: 10 of 2 ranks, 46 of 4, 146 of 8.
std::vector<MeshSizes> meshes_of(int world);

/// The node of each of `world` ranks that are threads: one half of them is on each of two nodes, where all groups then
/// have as many ranks on both of them or are on one; else all are on one.
std::vector<int> nodes_of_threads(int world);

/// One setting that is varied. The first value is the plain one.
struct Option {
  std::string name;  // in lists of layouts
  std::string key;   // of the recipe; empty for what verify does itself, or for what sets several keys
  std::vector<std::string> values;
  std::function<bool(const MeshSizes&)> matters;  // elsewhere the value changes nothing
  /// By value: the recipe's keys it sets, for an option that stands for several.
  std::vector<std::vector<std::string>> sets{};
};

/// sp, zero, pipeline, overlap (of two micro-batches), cp_kind, expansion, the choices of schedule.moe that its list
/// says are varied (layers/moe/schedule/moe_schedule.h), moe (how the MoE layer's work is cut, overlapped and ordered:
/// as the recipe says, or in another way), memory_reuse (as it is, and s1 and s4 under a memory limit), recompute,
/// bucket_bytes, offload (of optimizer states), activations (kept for backward, or offloaded until then), worker_lanes,
/// transport (ranks that are threads meet in memory, or exchange messages as
/// processes do), start (fresh, resumed from the checkpoint that one rank saved after the first step, or trained: the
/// same by the loop of `hexad train`) and subject
/// (what is run: the recipe, or what subject_kind.h makes of it, which has an oracle of its own). Values are those that
/// the recipe's keys take, where an option is one key.
std::span<const Option> options();

/// One way to run the recipe.
struct Variant {
  MeshSizes mesh;
  std::vector<int> choice;  // index into options()[i].values; 0 where an option does not matter

  explicit Variant(MeshSizes m = {}) : mesh(m), choice(options().size(), 0) {}
  bool operator==(const Variant&) const = default;

  /// The value of an option.
  const std::string& operator[](std::string_view option) const;
  /// Gives an option one of its values.
  void choose(std::string_view option, std::string_view value);
  /// True if its MoE layers have a memory limit; the recipe decides how many bytes.
  bool has_memory_limit() const;
  /// Keys that make a recipe run this way, plain options included; without the memory limit and the subject's changes.
  std::vector<std::string> overrides() const;
  /// "pp=2,tp=2,ep=4,etp=1,dp=2": what is not one, and etp where it is not tp. "dp=1" on one rank.
  std::string mesh_text() const;
  /// "sp=true,zero=1": what is not plain; empty when all is.
  std::string options_text() const;
  /// Both: what parse_layouts() reads.
  std::string text() const;
};

/// "tp=2,cp=2;pp=2,ep=4,zero=1": what is not named is one or plain, etp as tp; dp and edp follow from `world`. Throws
/// Error(usage) naming what is wrong and what is legal.
std::vector<Variant> parse_layouts(std::string_view text, int world);

}  // namespace hexad::verify
