// Advice of the papers' own algorithms on the schedule of an MoE layer, at measured rates. A run with open choices
// compares this advice with the schedule that it chooses (docs/auto-schedules.md).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/schedule/rates.h"
#include "layers/moe/schedule/moe_schedule.h"
#include "tools/plan/grouped_products.h"

namespace hexad::plan {

/// A group of ranks. `name` is the group's name in schedule::Rates::Link.
struct AdvisedGroup {
  std::string name;
  int ranks = 1;
  bool crosses_nodes = false;
};

/// An MoE layer and a micro-batch of one rank.
struct AdvisedLayer {
  double sequences = 1, tokens = 1;      // sequences of the micro-batch; tokens of each sequence that a tp group holds
  double hidden = 1, expert_hidden = 1;  // widths of the model and of a whole expert
  double experts = 1, top_k = 1;
  double capacity_factor = 1;
  double bytes_per_element = 4;
  double products = 2;  // matrix products of an expert: 3 for SwiGLU
  int64_t local_experts = 1;
  int64_t etp = 1;
  AdvisedGroup ep, tp, ep_etp;  // ep_etp: Parm's EP&ESP group
  GroupedProducts grouped{};    // times of products with one etp rank's shard of an expert
};

/// Advice of one paper. Either `schedule` or `silence` is set. `adviser` and `keys` do not depend on the rates, and are
/// therefore the same on all ranks.
struct Advice {
  std::string_view adviser;
  std::vector<std::string_view> keys{};  // keys of schedule.moe that the paper's algorithm decides
  std::optional<moe::MoeSchedule> schedule{};
  std::string silence{};  // reason why there is no schedule

  /// True if `schedule` is set, and `chosen` has the same values of all `keys`.
  bool agrees_with(const moe::MoeSchedule& chosen) const;
};

/// Returns the advice of MoNTA, Parm, EPS-MoE and MPMoE, in this order. Each adviser starts from `usual` without
/// chunks, and sets the choices that the algorithm of its paper makes or presumes:
///
///   MoNTA    Algorithms 1 to 3: duplicates drop, overlap (O1 to O3) and its chunks. I_minimal is the size of the
///            smallest measured all-to-all
///   Parm     Algorithm 1: duplicates (S1 or S2), and esp_exchange direct if etp is above 1. S2 overlaps, with as many
///            chunks as ep_etp has ranks. A capacity factor above 1 counts only if `usual` pads rows (capacity_padding)
///   EPS-MoE  the number N of expert groups with the largest gain L(N) - R(N) (eps::gain()). N is 1, or meets the
///            bounds of e0 and e1 (eps::Extra). R(N) is a line fitted to the extra time of communication and products
///            in N groups
///   MPMoE    the number of micro-batches (and the strategy among `reuse`) with the least predicted time
///
/// An adviser counts top_k rows for each token. If `usual` has `rows: token`, it counts fewer rows for the exchanges:
/// the expected number of ep ranks that have an expert of the token. This number assumes that all experts are chosen
/// equally often.
///
/// Advisers use only measured links (Rates::links). An adviser is silent in these cases:
/// - a curve that the adviser needs was not measured
/// - the layer lacks the parallelism that the adviser needs
/// - EPS-MoE: a rank has only one expert, or products of fewer than two numbers of experts were measured
/// - Parm: etp is above 1, and `usual` sends rows by the hierarchical all-to-all
std::vector<Advice> advice(const AdvisedLayer& layer, const schedule::Rates& rates, const moe::MoeSchedule& usual,
                           const std::vector<moe::ReuseStrategy>& reuse);

}  // namespace hexad::plan
