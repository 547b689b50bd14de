// The recipe's section `parallel`.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/config/constraints.h"
#include "parallel/cp/context_kind.h"
#include "parallel/mesh/layout.h"

namespace hexad::train {

struct ParallelConfig {
  int64_t pp = 1, tp = 1;
  bool sp = false;
  int64_t cp = 1;
  cp::ContextKind cp_kind = cp::ContextKind::ring;
  mesh::Expansion cp_expansion = mesh::Expansion::automatic;
  std::optional<std::string> order{};  // text of a mesh::AxisOrder
  int64_t ep = 1;
  std::optional<int64_t> etp{};
  int64_t zero = 0;

  mesh::Sizes sizes() const {
    return {.pp = static_cast<int>(pp),
            .cp = static_cast<int>(cp),
            .tp = static_cast<int>(tp),
            .ep = static_cast<int>(ep),
            .etp = static_cast<int>(etp.value_or(0)),
            .expansion = cp_expansion,
            .order = order.value_or("")};
  }

  /// Returns the smallest number of ranks on which the layout is possible.
  int64_t fewest_ranks() const { return pp * std::lcm(cp * tp, ep * etp.value_or(tp)); }

  /// Returns the layout on fewest_ranks(); none if the number of ranks overflows. Throws IllegalLayout.
  std::optional<mesh::Layout> smallest_layout() const;
  /// True if parallel.order spreads an etp group over several tp groups. False if the layout is illegal, or if etp does
  /// not divide tp.
  bool etp_across_tp() const;

  template <class V>
  void fields(V& v) {
    using config::at_least, config::at_most, config::automatic, config::between;
    constexpr int64_t most = 1 << 20;  // largest number of ranks; products of two such numbers do not overflow
    v("pp", pp, "pipeline stages", at_least(1), at_most(most));
    v("tp", tp, "ranks that share the heads, the MLPs' width and the vocabulary", at_least(1), at_most(most));
    v("sp", sp, "sequence parallelism: tp ranks divide the tokens in all computations that do not divide features");
    v("cp", cp, "ranks that share a sequence", at_least(1), at_most(most));
    v("cp_kind", cp_kind,
      "attention over ranks that share a sequence: ring (keys and values are sent while attention is computed), "
      "all_gather (keys and values are gathered first) or ulysses (an all-to-all exchanges tokens for heads)");
    v("cp_expansion", cp_expansion,
      "placement of experts if cp > 1: horizontal (along dp), vertical (along cp first), or auto (vertical if cp >= ep "
      "or if horizontal does not fit)");
    v("order", order,
      "order of the axes over the ranks, the fastest first, such as tp-cp-dp-ep-pp, with each of tp, cp, ep, dp and pp "
      "once (Megatron-Core's notation); experts have etp and edp in the positions of tp and dp; auto: tp is fastest, "
      "and cp_expansion places the experts",
      automatic);
    v("ep", ep, "ranks over which the experts of a layer are spread", at_least(1), at_most(most));
    v("etp", etp, "ranks that share one expert's width; auto: equal to tp", automatic, at_least(1), at_most(most));
    v("zero", zero,
      "state that is divided over the data-parallel ranks: 0: none, 1: optimizer state, 2: also gradients, 3: also "
      "weights",
      between(0, 3));
  }
};

/// Returns the overrides of `parallel` with which a single rank holds the whole model of a recipe.
inline std::vector<std::string> one_rank_overrides() {
  return {"parallel.pp=1",     "parallel.tp=1",   "parallel.sp=false",          "parallel.cp=1",      "parallel.ep=1",
          "parallel.etp=auto", "parallel.zero=0", "parallel.cp_expansion=auto", "parallel.order=auto"};
}

/// Returns a readable description: "dp 2 x cp 2 x tp 2 ...", followed by sp, the kind of cp and zero if they are used.
std::string describe(const ParallelConfig& c, int64_t world);

}  // namespace hexad::train
