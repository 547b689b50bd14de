// Layouts that `hexad plan` compares: the values that it tries for a recipe's keys, and the reasons why combinations of
// values are illegal.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/config/document.h"
#include "framework/config/problems.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::plan {

/// One layout of a recipe.
struct PlanCandidate {
  train::Recipe recipe;

  /// Returns the key and value of each setting that the planner may change, in the order of the recipe. Omits keys of
  /// schedule.moe if the model has no experts.
  std::vector<std::pair<std::string, std::string>> settings() const;
  /// Returns settings() without keys that have no effect on `world` ranks, such as parallel.cp_kind if cp is 1. Gives
  /// cp_expansion and etp their resolved values.
  std::vector<std::pair<std::string, std::string>> effective_settings(int64_t world) const;
  /// Returns a short text: "dp 16, tp 2, pp 4 interleaved x 2, ep 8, zero 1, micro 2, recompute attention". Adds
  /// cp_expansion, order, offload, overlap and choices of schedule.moe only if they differ from their defaults.
  std::string to_string(int64_t world) const;
};

/// A setting that differs between two layouts.
struct ChangedSetting {
  std::string key, from, to;  // from and to: values; "-" if the setting has no effect
};
/// Returns the effective settings that differ between two layouts on `world` ranks, in the order of the recipe.
std::vector<ChangedSetting> changed_settings(const PlanCandidate& from, const PlanCandidate& to, int64_t world);

/// Rules of load_to_train() for recipes on a given number of ranks. Not thread-safe.
class LayoutRules {
 public:
  /// Reads the keys of the recipe in `document`. `extensions` must outlive the object. A recipe with
  /// schedule.moe.all_to_all: window also breaks a rule if an ep group is on several nodes. This rule is checked only
  /// if `ranks_per_node` is known (not 0).
  LayoutRules(const config::Document& document, const train::Extensions& extensions, int64_t world,
              int64_t ranks_per_node = 0);

  /// Returns the key of the first rule that the recipe breaks; none if the recipe is legal.
  std::optional<std::string> broken(const train::Recipe& recipe);

 private:
  const train::Extensions& extensions_;
  const int64_t world_, ranks_per_node_;
  // Contains the keys of the recipe, and the problems found while reading these keys. broken() adds problems, and its
  // next call removes these problems. A copy of all keys for each call would take longer than checking the rules.
  config::Problems read_;
  size_t read_problem_count_ = 0;  // number of problems found while reading
};

/// Numbers of ranks that limit the search.
struct PlanSpace {
  int64_t world;               // number of ranks
  int64_t ranks_per_domain;    // number of ranks that the fast link connects; the limit of tp
  int64_t ranks_per_node = 0;  // number of ranks of a node; 0: unknown
};

/// Legal layouts, and counts of illegal layouts.
struct PlanCandidates {
  std::vector<PlanCandidate> legal;        // legal layouts, without their variants()
  int64_t variants = 0;                    // number of variants() of all `legal`, which are legal, too
  std::map<std::string, int64_t> refused;  // number of illegal combinations, by the key of the first broken rule
  int64_t tried = 0;                       // number of combinations, including variants
  // Number of combinations that were not tried, by key. The search tries only some values of each key. Combinations
  // that differ only in keys further down in the list of plan_candidates() count once. The rules may refuse some of
  // these combinations.
  std::map<std::string, int64_t> left_out;
};

/// Returns the variants of a layout that need less memory. The variants have zero 2 instead of 1, recompute norms
/// instead of none, or both. With zero 2, gradients are reduced in every micro-batch. The step of a variant is not
/// shorter than the step of the layout if activations are not offloaded.
std::vector<PlanCandidate> variants(const PlanCandidate& layout);
/// Returns the layout of which `layout` is one of the variants(); `layout` itself if it is no variant.
PlanCandidate without_variant(PlanCandidate layout);

/// Returns the legal layouts of the recipe on the given ranks: all combinations of
/// - tp: powers of two inside a domain, with sequence parallelism
/// - cp: powers of two for which each rank has at least 2048 tokens of a sequence; ulysses if tp x cp divides the
///   number of key heads, otherwise ring
/// - pp: powers of two; 1f1b, interleaved with 2 and 4 virtual stages, zb_h1
/// - ep: divisors of the number of experts (cp_expansion: auto decides between horizontal and vertical); etp: 1 or tp
/// - zero: 1, 2 and 3; only 0 if dp and cp are 1
/// - recompute: none, norms, attention, block
/// - batch.micro: 1; also powers of two up to 8 and the recipe's own size, if such a micro-batch has at most
///   max_micro_batch_tokens tokens
///
/// parallel.order and cp_expansion are auto, schedule.pipeline.split is empty, and all other keys are as in the recipe.
/// LayoutRules decides which layouts are legal. Layouts with zero 2 or recompute norms are only counted, because they
/// would double the memory of the list. variants() makes such layouts when a caller needs them.
///
/// The search leaves out these values:
/// - other divisors of the number of ranks, for tp (up to the number of heads), cp, pp (up to the number of layers) and
///   etp
/// - other divisors of batch.global / dp, for batch.micro
/// - other values of cp_kind, and other pipelines
/// - zero 0 if zero 1 has an effect
PlanCandidates plan_candidates(const config::Document& document, const train::Recipe& recipe,
                               const train::Extensions& extensions, const PlanSpace& space);

/// Nearest numbers of ranks that have a legal layout; none: no such number was found.
struct NearestRanks {
  std::optional<int64_t> below, above;
};
/// Returns the nearest numbers of ranks below and above space.world, up to `most`, that have a legal layout. Tries at
/// most 16 numbers below and 16 above. Each tried number is a power of two times a divisor of batch.global, because
/// plan_candidates() can divide such numbers among axes.
NearestRanks nearest_legal_ranks(const config::Document& document, const train::Recipe& recipe,
                                 const train::Extensions& extensions, const PlanSpace& space, int64_t most);

}  // namespace hexad::plan
