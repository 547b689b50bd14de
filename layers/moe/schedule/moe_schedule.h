// Schedule of an MoE layer's communication and computation: the values of each choice of the recipe's section
// `schedule.moe`, and MoeChoices with the defaults. moe_choices.h lists the choices with keys, papers and rules. To add
// a choice, declare it in both files and implement it where it takes effect (docs/adding-a-schedule.md).
#pragma once

#include <array>
#include <iterator>
#include <span>
#include <vector>

#include "framework/config/byte_size.h"
#include "framework/kernels/wire.h"
#include "layers/moe/schedule/choice.h"
#include "parallel/ep/routing_options.h"

namespace hexad::moe {

/// Treatment of the tokens that all tensor-parallel ranks hold.
enum class Duplicates : uint8_t { baseline, replicated, drop, pause_before_gate, pause_after_gate };
constexpr auto words(Duplicates) {
  using enum Duplicates;
  return std::to_array<Word<Duplicates>>({
      {baseline, "baseline", "DeepSpeed-MoE"},  // Parm Fig. 3(a): etp ranks gather tokens, and each sends all of them
      {replicated, "replicated", "MoNTA's baseline"},  // every rank sends its copy to the experts of its own ep group
      {drop, "drop", "DTD, MoNTA O1"},  // each rank sends 1/tp of the tokens, divided after the gate (DeepSpeed-TED)
      {pause_before_gate, "pause_before_gate", "Parm S1"},  // each rank routes and sends 1/tp of the tokens
      {pause_after_gate, "pause_after_gate", "Parm S2"},    // like drop; see returns_in_phases()
  });
}

/// Collectives that are in flight at the same time.
enum class Overlap : uint8_t { sequential, a2a_allgather, a2a_allgather_copy, none };
constexpr auto words(Overlap) {
  using enum Overlap;
  return std::to_array<Word<Overlap>>({
      {sequential, "sequential", ""},
      {a2a_allgather, "a2a_allgather", "MoNTA O2, Parm SAA"},  // all-to-all of one chunk, all-gather of another
      {a2a_allgather_copy, "a2a_allgather_copy", "MoNTA O3"},  // also the copies of a third chunk
      {none, "none", "MPMoE Fig. 16: chunks do not overlap either, which shows the cost of chunks alone"},
  });
}

/// Division of a micro-batch's work into chunks. Other chunks are in flight while the experts compute one chunk, except
/// with overlap: none.
enum class ChunkBy : uint8_t { none, tokens, nodes, experts };
constexpr auto words(ChunkBy) {
  using enum ChunkBy;
  return std::to_array<Word<ChunkBy>>({
      {none, "none", ""},
      {tokens, "tokens", "MPMoE"},    // also used by PipeMoE and Tutel
      {nodes, "nodes", "FasterMoE"},  // by the distance of the expert's rank in the ring of ranks
      {experts, "experts", "EPS-MoE"},
  });
}

/// Strategy for restoring the experts' inputs T_DI and activations T_M in backward (MPMoE, Table 2).
enum class ReuseStrategy : uint8_t { none, s1, s2, s3, s4 };
constexpr auto words(ReuseStrategy) {
  using enum ReuseStrategy;
  return std::to_array<Word<ReuseStrategy>>({
      {none, "none", "both are kept"},
      {s1, "s1", "MPMoE: offload both"},
      {s2, "s2", "MPMoE: send again, offload"},
      {s3, "s3", "MPMoE: offload, compute again"},
      {s4, "s4", "MPMoE: send again, compute again"},
  });
}
constexpr bool offloads_inputs(ReuseStrategy r) { return r == ReuseStrategy::s1 || r == ReuseStrategy::s3; }
constexpr bool offloads_activations(ReuseStrategy r) { return r == ReuseStrategy::s1 || r == ReuseStrategy::s2; }

/// Number of kernel calls for the matrix products of several experts (EPS-MoE's GroupGemm and DenseGemm).
enum class Gemms : uint8_t { grouped, dense, by_load };
constexpr auto words(Gemms) {
  using enum Gemms;
  return std::to_array<Word<Gemms>>({
      {grouped, "grouped", "one for all"},
      {dense, "dense", "one for each expert that has rows"},
      {by_load, "by_load",
       "EPS-MoE: dense if the experts of a call have at least dense_rows rows on average, else "
       "grouped"},
  });
}

/// Fusion of a product of SwiGLU experts and their activation into one kernel call: the first product (gate and up) in
/// forward, the gradient of the last product in backward.
enum class Fused : uint8_t { off, on };
constexpr auto words(Fused) {
  using enum Fused;
  return std::to_array<Word<Fused>>({{off, "off", ""}, {on, "on", ""}});
}

/// Treatment of experts that get far more rows than other experts.
enum class HotExperts : uint8_t { stay, shadow };
constexpr auto words(HotExperts) {
  using enum HotExperts;
  return std::to_array<Word<HotExperts>>({
      {stay, "stay", "rows are sent to the experts' ranks"},
      {shadow, "shadow",
       "FasterMoE: each ep rank gets a copy of the weights of hot experts and computes its own rows with it; the "
       "gradients of the copies are summed on the experts' ranks"},
  });
}

/// Time at which the shared experts compute.
enum class SharedExperts : uint8_t { after, beside };
constexpr auto words(SharedExperts) {
  using enum SharedExperts;
  return std::to_array<Word<SharedExperts>>({
      {after, "after",
       "alone: after the routed experts' results have returned, or before the pass if tasks of the pass sum the "
       "results"},
      {beside, "beside", "while rows (in backward: gradients) are sent to the routed experts"},
  });
}

/// Treatment of experts for which a rank has fewer slots than its share of the expert's capacity.
enum class CapacityPadding : uint8_t { none, full };
constexpr auto words(CapacityPadding) {
  using enum CapacityPadding;
  return std::to_array<Word<CapacityPadding>>({
      {none, "none", "only rows of slots"},
      {full, "full",
       "DeepSpeed-MoE: also padding, up to the rank's share of the expert's capacity (model.moe.capacity_factor); "
       "padding is computed and returned, but has no effect"},
  });
}

/// Numbers of chunks that `auto` tries first if chunk_by is not experts. The MPMoE and MoNTA papers use these numbers.
/// Later, `auto` may try all numbers in between.
inline constexpr int64_t chunks_tried[] = {2, 4, 8, 16};

template <class T>
using Settled = T;
/// Returns the default of a choice whose default in recipes is `auto`: `settled` in a schedule, unset in a recipe.
template <template <class> class Open, class T>
constexpr Open<T> open_or(T settled) {
  if constexpr (std::is_same_v<Open<T>, T>) return settled;
  return {};
}

/// Choices with their defaults, in a schedule (MoeSchedule: every `Open` choice has a value) or in a recipe
/// (MoeScheduleConfig). In a recipe, an `Open` choice may be unset, which means `auto`.
template <template <class> class Open>
struct MoeChoices {
  Open<Duplicates> duplicates = Duplicates::pause_before_gate;
  Open<Overlap> overlap = Overlap::sequential;
  Open<ChunkBy> chunk_by = ChunkBy::none;
  Open<int64_t> chunks = open_or<Open, int64_t>(1);
  std::optional<ep::EspExchange> esp_exchange{};
  ep::AllToAll all_to_all = ep::AllToAll::direct;
  Open<ep::RowOf> rows = ep::RowOf::slot;
  Open<ReuseStrategy> memory_reuse = ReuseStrategy::none;
  std::optional<config::ByteSize> memory_limit{};
  kernels::WireFormat wire = kernels::WireFormat::model;
  Open<std::string> order = "alternating";
  Open<Gemms> gemms = Gemms::grouped;
  std::optional<int64_t> dense_rows{};
  std::optional<Fused> fused = Fused::off;  // unset: duels in the first step decide (FusedDuels)
  double compute_share = 1;
  SharedExperts shared = SharedExperts::after;
  HotExperts hot_experts = HotExperts::stay;
  std::optional<double> hot_load{};
  CapacityPadding capacity_padding = CapacityPadding::none;
  bool operator==(const MoeChoices&) const = default;
};

struct MoeSchedule : MoeChoices<Settled> {
  /// Default of dense_rows for gemms: by_load (see is_dense()). The default is the number of rows per expert in
  /// EPS-MoE, Fig. 5a: 4096 rows for 16 experts. On CPUs, we found no threshold (docs/schedules.md).
  static constexpr int64_t usual_dense_rows = 256;
  /// Default of hot_load for hot_experts: shadow. There is a second condition if hot_load is unset: the rows of a hot
  /// expert must be at least as large as its weights (hot_rule() in routes/routes.cpp).
  static constexpr double usual_hot_load = 2;

  bool is_chunked() const { return chunk_by != ChunkBy::none; }
  /// True if collectives of one chunk overlap with collectives or copies of another chunk (MoNTA's O2 and O3, Parm's
  /// SAA).
  bool overlaps_collectives() const {
    return overlap == Overlap::a2a_allgather || overlap == Overlap::a2a_allgather_copy;
  }
  /// True if every task of a pass waits for the task before it, so that nothing overlaps.
  bool in_sequence() const { return overlap == Overlap::none; }
  /// True if the work is divided into chunks or phases, which overlap if in_sequence() is false.
  bool overlaps() const { return is_chunked() || overlaps_collectives(); }
  /// True if rows are sent in one all-to-all and return in `chunks` phases (Parm's SAA). Ranks gather the rows that
  /// have returned while the next phase returns.
  bool returns_in_phases() const {
    return duplicates == Duplicates::pause_after_gate && overlaps_collectives() && !is_chunked();
  }
  /// True if a token's row for a rank is sent and returned once, and not in every chunk that computes it
  /// (ep::joins_rows()).
  bool joins_rows() const { return rows == ep::RowOf::token && chunk_by == ChunkBy::experts; }
  /// Returns the largest number of phases: one for each rank of the all-to-all (Parm, Fig. 5).
  int64_t max_phases(const ScheduleSite& at) const {
    return esp_exchange_used() == ep::EspExchange::direct ? at.ep * at.etp : at.ep;
  }
  /// True if backward restores activations. Tasks may then run on the copy lane.
  bool copies() const { return memory_reuse != ReuseStrategy::none; }
  /// True if the shared experts are a task of the pass.
  bool shares_pass() const { return shared == SharedExperts::beside; }
  /// True if ranks get copies of hot experts.
  bool shadows() const { return hot_experts == HotExperts::shadow; }
  /// True if tasks run on several lanes at the same time.
  bool uses_lanes() const { return !in_sequence() && (overlaps() || copies() || shares_pass() || shadows()); }
  /// True if every tensor-parallel rank routes all tokens that it holds. If false, the ranks first divide the tokens
  /// that all of them hold.
  bool gates_all() const { return duplicates != Duplicates::pause_before_gate; }
  /// True if each expert's matrix product is a separate kernel call. Expert e has rows [offsets[e], offsets[e + 1]).
  /// With gemms: by_load, the result is true if the experts with rows have at least dense_rows rows on average. As in
  /// EPS-MoE, one decision applies to all experts of a call. Separate calls for only the large experts would split the
  /// grouped call, which must cover neighbouring experts.
  bool is_dense(std::span<const int64_t> offsets) const;
  /// Returns esp_exchange or, if it is unset, the exchange that `duplicates` implies.
  ep::EspExchange esp_exchange_used() const {
    return esp_exchange.value_or(divides() ? ep::EspExchange::gather : ep::EspExchange::replicated);
  }
  /// True if tensor-parallel ranks divide the rows to send among themselves.
  bool divides() const { return duplicates != Duplicates::baseline && duplicates != Duplicates::replicated; }
  bool operator==(const MoeSchedule&) const = default;
};

/// Returns the name of a schedule, such as "duplicates drop, overlap sequential, chunk_by tokens, chunks 4". All other
/// choices that differ from their defaults follow.
std::string to_string(const MoeSchedule& schedule);
/// Inverse of to_string(): returns the schedule with this name, or none if there is no such schedule.
std::optional<MoeSchedule> schedule_named(std::string_view name);
/// Returns the choices that differ from their defaults, such as "chunk_by tokens, chunks 4"; empty if there are none.
std::string unusual_choices(const MoeSchedule& schedule);

}  // namespace hexad::moe
