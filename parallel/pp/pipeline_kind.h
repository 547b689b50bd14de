// The recipe's section `schedule.pipeline`: the schedule, and the split of layers into stages.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/enum_names.h"
#include "framework/config/constraints.h"

namespace hexad::pp {

/// Kind of pipeline schedule.
/// - gpipe: Huang et al. 2019.
/// - one_f_one_b: Narayanan et al. 2019.
/// - interleaved: Narayanan et al. 2021.
/// - zb_h1: Qi et al. 2023. Weight gradients fill the bubble.
/// - zb_v: Qi et al. 2023. Weight gradients fill the bubble. Each rank has two virtual stages, placed in a V.
/// - dualpipe_v: DeepSeek 2025. Like zb_v, but each forward of the steady state is merged with a backward.
enum class PipelineKind : uint8_t { gpipe, one_f_one_b, interleaved, zb_h1, zb_v, dualpipe_v };
constexpr auto enum_names(PipelineKind) {
  return std::to_array<std::pair<PipelineKind, std::string_view>>({{PipelineKind::gpipe, "gpipe"},
                                                                   {PipelineKind::one_f_one_b, "1f1b"},
                                                                   {PipelineKind::interleaved, "interleaved"},
                                                                   {PipelineKind::zb_h1, "zb_h1"},
                                                                   {PipelineKind::zb_v, "zb_v"},
                                                                   {PipelineKind::dualpipe_v, "dualpipe_v"}});
}
constexpr std::string_view name_of(PipelineKind kind) { return base::enum_name(kind); }

/// Assignment of virtual stages to ranks.
/// - loop: local stage v of rank p is virtual stage v * pp + p (stage_map.h explains local stages).
/// - vee (a V): rank p has virtual stages p and 2 * pp - 1 - p. The first rank thus has both ends of the
///   model, and the last rank has the middle.
enum class Placing : uint8_t { loop, vee };

/// Overlap of actions.
/// - none: the actions of a rank run one after the other.
/// - micro_batches: a forward alternates with the backward of an earlier micro-batch. One of the two computes while the
///   rows of the other are in flight to experts (DeepSeek-V3, section 3.2.1).
enum class Overlap : uint8_t { none, micro_batches };
constexpr auto enum_names(Overlap) {
  return std::to_array<std::pair<Overlap, std::string_view>>(
      {{Overlap::none, "none"}, {Overlap::micro_batches, "micro_batches"}});
}

struct PipelineConfig {
  PipelineKind kind = PipelineKind::one_f_one_b;
  int64_t virtual_stages = 2;
  std::vector<int64_t> split;
  Overlap overlap = Overlap::none;

  /// Returns the number of virtual stages of a rank.
  int stages_a_rank() const {
    switch (kind) {
      case PipelineKind::interleaved:
        return static_cast<int>(virtual_stages);
      case PipelineKind::zb_v:
      case PipelineKind::dualpipe_v:
        return 2;
      default:
        return 1;
    }
  }
  /// True if schedules of this kind have pairs of a forward and a backward that a rank can merge without delaying other
  /// ranks.
  bool has_pairs() const { return kind == PipelineKind::one_f_one_b || kind == PipelineKind::dualpipe_v; }
  /// True if every backward in schedules of this kind delays its weight gradients. Schedules of kind dualpipe_v delay
  /// the weight gradients of some micro-batches only.
  bool delays_all_weights() const { return kind == PipelineKind::zb_h1 || kind == PipelineKind::zb_v; }
  Placing placing() const {
    return kind == PipelineKind::zb_v || kind == PipelineKind::dualpipe_v ? Placing::vee : Placing::loop;
  }

  template <class V>
  void fields(V& v) {
    v("kind", kind, "schedule: order of forward and backward on the stages of parallel.pp");
    v("virtual_stages", virtual_stages,
      "number of virtual stages of a rank for kind interleaved (fixed for all other kinds: 1 for 1f1b, gpipe and "
      "zb_h1; 2 for zb_v and dualpipe_v)",
      config::at_least(1));
    v("split", split,
      "number of layers of each virtual stage, in the order of the model; empty: balanced by cost, including embedding "
      "and head",
      config::at_least(1));
    v("overlap", overlap,
      "none, or micro_batches: the forward of one micro-batch and the backward of an earlier one alternate, so that "
      "one computes while the all-to-all of the other is in flight. With parallel.pp: 1, micro_batches needs at least "
      "two micro-batches per step; otherwise, it needs kind 1f1b (then with twice the micro-batches in flight) or "
      "dualpipe_v");
  }
};

}  // namespace hexad::pp
