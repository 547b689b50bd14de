// Schedule of an MoE layer's communication and computation. This file declares every choice of the recipe's section
// `schedule.moe`: first the values of each choice, then MoeChoices with the defaults, then the list moe_choices with
// keys, papers and rules. The recipe, its reference and checks, the names of schedules, `auto` and `hexad verify` use
// this list. To add a choice, declare it here and implement it where it takes effect (docs/adding-a-schedule.md).
#pragma once

#include <array>
#include <iterator>
#include <span>
#include <tuple>
#include <vector>

#include "framework/config/byte_size.h"
#include "framework/kernels/wire.h"
#include "layers/moe/schedule/choice.h"
#include "parallel/ep/plan_options.h"

namespace hexad::moe {

/// Treatment of the tokens that all tensor-parallel ranks hold.
enum class Duplicates : uint8_t { baseline, replicated, drop, pause_before_gate, pause_after_gate };
constexpr auto words(Duplicates) {
  using enum Duplicates;
  return std::to_array<Word<Duplicates>>({
      {baseline, "baseline", "DeepSpeed-MoE"},  // Parm Fig. 3(a): etp ranks gather tokens, each sends all of them
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

/// Division of a micro-batch's work into chunks. The experts compute one chunk while other chunks are in flight.
enum class ChunkBy : uint8_t { none, tokens, nodes, experts };
constexpr auto words(ChunkBy) {
  using enum ChunkBy;
  return std::to_array<Word<ChunkBy>>({
      {none, "none", ""},
      {tokens, "tokens", "MPMoE"},    // also used by PipeMoE and Tutel
      {nodes, "nodes", "FasterMoE"},  // by the distance of the expert's rank
      {experts, "experts", "EPS-MoE"},
  });
}

/// Strategy for restoring the experts' inputs T_DI and activations T_M in backward (MPMoE, Table 2).
enum class ReuseStrategy : uint8_t { none, s1, s2, s3, s4 };
constexpr auto words(ReuseStrategy) {
  using enum ReuseStrategy;
  return std::to_array<Word<ReuseStrategy>>({
      {none, "none", "they are kept"},
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

/// Kernel calls for the first product of SwiGLU experts (gate and up) and their activation.
enum class Fused : uint8_t { off, on };
constexpr auto words(Fused) {
  using enum Fused;
  return std::to_array<Word<Fused>>({{off, "off", ""}, {on, "on", ""}});
}

/// Treatment of experts that get far more rows than others.
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

/// Numbers of chunks in the first candidates of `auto` unless chunk_by is experts: those of the MPMoE and MoNTA papers.
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
  std::optional<Fused> fused = Fused::off;  // unset: a duel in the first step decides (kernels::Duel)
  double compute_share = 1;
  SharedExperts shared = SharedExperts::after;
  HotExperts hot_experts = HotExperts::stay;
  std::optional<double> hot_load{};
  CapacityPadding capacity_padding = CapacityPadding::none;
  bool operator==(const MoeChoices&) const = default;
};

struct MoeSchedule : MoeChoices<Settled> {
  /// Default of dense_rows for gemms: by_load (see is_dense()). It is the number of rows per expert in EPS-MoE, Fig.
  /// 5a: 4096 rows for 16 experts. On CPUs, we found no such threshold (docs/schedules.md).
  static constexpr int64_t usual_dense_rows = 256;
  /// Default of hot_load for hot_experts: shadow. If hot_load is unset, a hot expert must also have so many rows that
  /// sending its weights costs no more than sending the rows (hot_rule() in pass/routes.cpp).
  static constexpr double usual_hot_load = 2;

  bool is_chunked() const { return chunk_by != ChunkBy::none; }
  /// True if collectives of one chunk overlap with collectives or copies of another chunk (MoNTA's O2 and O3, Parm's
  /// SAA).
  bool overlaps_collectives() const {
    return overlap == Overlap::a2a_allgather || overlap == Overlap::a2a_allgather_copy;
  }
  /// True if every task of a pass waits for the task before it, so that nothing overlaps.
  bool in_sequence() const { return overlap == Overlap::none; }
  /// True if the work is divided into chunks or phases, which overlap unless in_sequence().
  bool overlaps() const { return is_chunked() || overlaps_collectives(); }
  /// True if rows are sent in one all-to-all and return in `chunks` phases (Parm's SAA). While one phase returns, ranks
  /// gather the rows that have returned.
  bool returns_in_phases() const {
    return duplicates == Duplicates::pause_after_gate && overlaps_collectives() && !is_chunked();
  }
  /// True if the row of a token for a rank is shared by all chunks (ep::joins_rows()).
  bool joins_rows() const { return rows == ep::RowOf::token && chunk_by == ChunkBy::experts; }
  /// Returns the number of phases if each rank of the all-to-all returns its rows in a separate phase (Parm, Fig. 5).
  int64_t most_phases(const ScheduleSite& at) const {
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

/// List of all choices. Each entry has a key, a function that returns the member of a MoeSchedule or MoeScheduleConfig,
/// and the facts (ChoiceFacts).
// clang-format off
inline constexpr std::tuple moe_choices{
  choice("duplicates", [](auto& s) -> auto& { return s.duplicates; },
    ChoiceFacts{.meaning = "treatment of the tokens that all tensor-parallel ranks hold",
      .automatic = "chosen in the first steps",
      .in_every_name = true,
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        const bool replicated = s.duplicates == Duplicates::replicated;
        if (at.sp && at.tp > 1 && (replicated || s.duplicates == Duplicates::pause_after_gate))
          no.add("needs tokens that all tp ranks hold, but parallel.sp divides them before the layer; legal with "
                 "parallel.sp: baseline, drop, pause_before_gate");
        else if (replicated && at.tp % at.etp != 0)
          no.add("needs parallel.etp (", at.etp, ") to divide parallel.tp (", at.tp,
                 "), because all ranks of an etp group must hold the same tokens");
        else if (replicated && at.etp_across_tp)
          no.add("needs every etp group inside one tp group, because all ranks of an etp group must hold the same "
                 "tokens, but parallel.order distributes etp groups over several tp groups; use an order that begins "
                 "with tp, or auto");
      },
      .matters = [](const ScheduleSite& at) { return at.tp * at.etp > 1; },
      .varied = {{"pause_before_gate"}, {"drop"}, {"pause_after_gate"}, {"replicated"}, {"baseline"}}}),

  choice("overlap", [](auto& s) -> auto& { return s.overlap; },
    ChoiceFacts{.meaning = "collectives that are in flight at the same time",
      .automatic = "chosen in the first steps",
      .in_every_name = true,
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (s.in_sequence() && !s.is_chunked())
          no.add("needs chunks: set schedule.moe.chunk_by, or overlap: sequential");
      },
      .matters = [](const ScheduleSite& at) { return at.tp * at.etp > 1; },
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) { return s.in_sequence(); }}),

  choice("chunk_by", [](auto& s) -> auto& { return s.chunk_by; },
    ChoiceFacts{.meaning = "division of a micro-batch into chunks that the experts compute one after another",
      .automatic = "chosen in the first steps",
      .in_every_name = true,
      .left_out = [](const ScheduleSite& at,
                     const MoeSchedule& s) { return at.ep == 1 && s.chunk_by == ChunkBy::nodes; }}),

  choice("chunks", [](auto& s) -> auto& { return s.chunks; },
    ChoiceFacts{.meaning = "number of chunks into which chunk_by or overlap divides the work; with duplicates: "
                           "pause_after_gate and overlap, the number of phases in which rows return (Parm: parallel.ep "
                           "x parallel.etp)",
      .automatic = "1 if nothing overlaps, else chosen in the first steps",
      .limits = {config::at_least(1), config::at_most(1024)},
      .in_every_name = true,
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.chunks > 1 && !s.overlaps())
          return no.add("needs schedule.moe.chunk_by or schedule.moe.overlap, which divide the work into chunks; set "
                        "one of them, or chunks: 1");
        if (s.chunks == 1 && s.overlaps())
          return no.add("must be at least 2 for ", s.is_chunked() ? "schedule.moe.chunk_by" :
              "schedule.moe.overlap: with one chunk nothing overlaps");
        // An ep group of one rank always has one chunk or phase.
        if (s.chunk_by == ChunkBy::nodes && at.ep > 1 && s.chunks > at.ep)
          no.add("must be at most parallel.ep (", at.ep, ") for chunk_by: nodes, which divides the all-to-all by peers");
        if (const int64_t most = s.most_phases(at);
            s.returns_in_phases() && at.ep > 1 && s.chunks > at.ep && s.chunks != most)
          no.add("must be at most parallel.ep (", at.ep, ")", most > at.ep ? ", or parallel.ep x parallel.etp (" : "",
                 most > at.ep ? base::cat(most, ")") : "", ", for the phases in which rows return with duplicates: "
                 "pause_after_gate and schedule.moe.overlap");
        if (s.chunk_by == ChunkBy::experts && at.experts % at.ep == 0 && s.chunks > at.experts / at.ep)
          no.add("must be at most the experts of a rank (", at.experts, " / ", at.ep, " = ",
                 at.experts / at.ep, ") for chunk_by: experts");
      },
      .chosen_in = [](const MoeSchedule& s) { return s.overlaps(); },
      // For chunk_by: experts, every divisor of the number of a rank's experts. EPS-MoE uses 5 and 20 chunks, for
      // example.
      .tried = [](const ScheduleSite& at, const MoeSchedule& s) {
        return s.chunk_by == ChunkBy::experts ? divisors_from_two(at.experts / at.ep)
                                              : std::vector<int64_t>(std::begin(chunks_tried), std::end(chunks_tried));
      }}),

  choice("esp_exchange", [](auto& s) -> auto& { return s.esp_exchange; },
    ChoiceFacts{.meaning = "transport of rows to the etp ranks that share an expert: gather (each row is sent to one "
                           "of these ranks, which then gather all rows), direct (each row is sent to all of these "
                           "ranks: Parm's EP&ESP-AlltoAll), replicated (each of these ranks is sent its own copy)",
      .automatic = "replicated for duplicates: baseline and replicated, else gather, or the faster of gather and "
                   "direct if other choices are auto",
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (!s.esp_exchange) return;
        const bool replicated = *s.esp_exchange == ep::EspExchange::replicated;
        if (replicated && s.divides())
          no.add("replicated needs schedule.moe.duplicates: baseline or replicated, because only these send all rows "
                 "to every etp rank; legal here: auto, gather, direct");
        if (!replicated && !s.divides())
          no.add("must be auto or replicated for duplicates: baseline and replicated, which send every etp rank its "
                 "own copy");
      },
      .matters = [](const ScheduleSite& at) { return at.etp > 1; },
      // Tries only direct, and only with a direct all-to-all: the group of the all-to-all depends on esp_exchange, and
      // the layer checks the two levels of only one group.
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) {
        return s.esp_exchange && !(*s.esp_exchange == ep::EspExchange::direct && s.divides() &&
                                   s.all_to_all == ep::AllToAll::direct);
      },
      .late = true,
      .varied = {{"auto"}, {"direct"}}}),

  choice("all_to_all", [](auto& s) -> auto& { return s.all_to_all; },
    ChoiceFacts{.meaning = "transport of rows between ranks: direct, or hierarchical (DeepSpeed-MoE, Tutel's 2DH): "
                           "first inside a node, to the rank with the position of the destination, then between nodes, "
                           "so that a rank sends one message to each other node; hierarchical needs the same number of "
                           "ranks on each node of an all-to-all; window: each rank copies rows to their places in the "
                           "memory of the experts' ranks and copies results from there, which needs ep ranks on one "
                           "node that are threads, or have a GPU each that NCCL connects; see docs/windows.md",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.all_to_all != ep::AllToAll::window) return;
        const auto refuse = [&](std::string_view need) {
          no.add("needs ", need, "; legal here: direct, hierarchical");
        };
        if (at.etp > 1) refuse("parallel.etp: 1, because rows for several ranks have several places");
        if (s.rows == ep::RowOf::token) refuse("schedule.moe.rows: slot, because a row of a token has several places");
        if (s.wire != kernels::WireFormat::model)
          refuse("schedule.moe.wire: model, because rows are computed as they lie in the window");
        if (s.memory_reuse != ReuseStrategy::none)
          refuse("schedule.moe.memory_reuse: none, because s1 to s4 send weights with the rows");
        if (s.overlaps_collectives())
          refuse("schedule.moe.overlap: sequential or none, because other overlaps compute all chunks together or "
                 "return rows in phases");
        if (s.hot_experts == HotExperts::shadow)
          refuse("schedule.moe.hot_experts: stay, because rows of shadows have no place on another rank");
      },
      .matters = [](const ScheduleSite& at) { return at.two_levels; },
      .varied = {{"direct"}, {"hierarchical"}}}),

  choice("rows", [](auto& s) -> auto& { return s.rows; },
    ChoiceFacts{.meaning = "meaning of a row that is sent: slot (each expert of a token gets a copy of the token and "
                           "returns its result) or token (each rank that has any of the token's experts gets one copy "
                           "and returns one weighted sum, also over chunks of experts: EPS-MoE)",
      .automatic = "chosen in the first steps",
      .matters = [](const ScheduleSite& at) { return at.ep * at.etp > 1; },
      .late = true,
      .varied = {{"slot"}, {"token"}}}),

  choice("memory_reuse", [](auto& s) -> auto& { return s.memory_reuse; },
    ChoiceFacts{.meaning = "method by which backward obtains the experts' inputs and activations",
      .note = "with recompute: block, they are always kept",
      .automatic = "none if kept tensors fit into memory.limit_bytes under any routing, else the fastest of s1 to s4, "
                   "with the remaining memory as memory_limit",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.memory_reuse == ReuseStrategy::none) return;
        const auto refuse = [&](std::string_view why) {
          no.add("needs chunks of tokens: ", why, "; or set memory_reuse: none");
        };
        if (s.chunk_by == ChunkBy::nodes || s.chunk_by == ChunkBy::experts)
          refuse("schedule.moe.chunk_by must be none or tokens, because a token is summed when its chunk has returned");
        if (s.overlaps_collectives())
          refuse("schedule.moe.overlap must be sequential or none, because other overlaps compute all chunks together");
        if (s.duplicates == Duplicates::baseline && at.etp > 1)
          refuse("schedule.moe.duplicates must not be baseline if parallel.etp is above 1, because etp ranks gather "
                 "tokens before these are divided into chunks, but a rank sums only its own tokens");
      },
      .left_out = [](const ScheduleSite& at, const MoeSchedule& s) {
        return at.recomputes_blocks && s.memory_reuse != ReuseStrategy::none;
      }}),

  choice("memory_limit", [](auto& s) -> auto& { return s.memory_limit; },
    ChoiceFacts{.meaning = "maximum bytes of a pass's buffers on a rank, under any routing: tokens are divided "
                           "into as many chunks as the limit requires; none: no limit; a limit needs memory_reuse "
                           "other than none",
      .limits = {config::at_least(1)},
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (!s.memory_limit) return;
        if (s.memory_reuse == ReuseStrategy::none)
          return no.add("needs schedule.moe.memory_reuse: s1 to s4, because memory_reuse: none keeps activations of "
                        "the whole micro-batch");
        if (s.all_to_all == ep::AllToAll::hierarchical)
          return no.add("does not count rows that a rank forwards to another rank: schedule.moe.all_to_all must be "
                        "direct; or set memory_limit: none");
        if (s.rows == ep::RowOf::token)
          return no.add("counts only buffers of slot rows: schedule.moe.rows must be slot; or set memory_limit: none");
        if (const int64_t least = at.least_memory_limit(s.memory_reuse); *s.memory_limit < least)
          no.add("is too small for chunks of one token; the minimum is ", least);
      }}),

  choice("wire", [](auto& s) -> auto& { return s.wire; },
    ChoiceFacts{.meaning = "format of the rows that are sent: model (as they are computed) or fp8 (e4m3 with one scale "
                           "per row, which rounds values to 4 significant bits)"}),

  choice("order", [](auto& s) -> auto& { return s.order; },
    ChoiceFacts{.meaning = "order of the steps of a chunked pass: alternating (chunks are sent and returned in turn: "
                           "MPMoE), weights_last (weight gradients are computed last, so no result waits for them), "
                           "returns_last (all chunks are sent before any result returns: Tutel, FasterMoE), or the "
                           "name of a registered order",
      .automatic = "chosen in the first steps",
      .chosen_in = [](const MoeSchedule& s) { return s.is_chunked(); },
      .late = true}),

  choice("gemms", [](auto& s) -> auto& { return s.gemms; },
    ChoiceFacts{.meaning = "kernel calls for the matrix products (GEMMs) of several experts",
      .automatic = "grouped or by_load, chosen in the first steps, if schedule.profile shows that dense GEMMs of this "
                   "size can be faster, or if dense_rows is set; else grouped",
      // Skips dense, because by_load is dense wherever this is faster. Skips by_load without a threshold, because then
      // no prediction and no paper favours it.
      .left_out = [](const ScheduleSite& at, const MoeSchedule& s) {
        return s.gemms == Gemms::dense || (s.gemms == Gemms::by_load && !at.has_dense_rows);
      },
      .late = true,
      .keeps_bits = true,
      .varied = {{"grouped", "dense_rows=auto"}, {"dense", "dense_rows=auto"}, {"by_load", "dense_rows=4"}}}),

  choice("dense_rows", [](auto& s) -> auto& { return s.dense_rows; },
    ChoiceFacts{.meaning = "minimum mean number of rows per expert at which gemms: by_load is dense; experts without "
                           "rows are not counted",
      .automatic = "the value measured in schedule.profile, if the profile has dense GEMMs; else 256, the threshold on "
                   "the GPUs of EPS-MoE (4096 rows of 16 experts)",
      .limits = {config::at_least(1)},
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (s.dense_rows && s.gemms != Gemms::by_load)
          no.add("is read only by schedule.moe.gemms: by_load; set gemms: by_load, or dense_rows: auto");
      },
      .late = true,
      .keeps_bits = true}),

  choice("fused", [](auto& s) -> auto& { return s.fused; },
    ChoiceFacts{.meaning = "kernel calls for the first product of SwiGLU experts (gate and up) and their activation: "
                           "off (one after the other) or on (one call, where the products are grouped; on H100 the "
                           "activation is computed in the epilogue of the product)",
      .automatic = "the faster one in the first step, if its results are correct; train.deterministic, verify, eval "
                   "and generate use off; see docs/fused-experts.md",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.fused == Fused::off) return;
        const auto refuse = [&](std::string_view need) { no.add("needs ", need, "; legal here: off"); };
        if (!at.fuses_experts)
          refuse("model.moe.expert: swiglu, without model.moe.expert_bias and model.swiglu_limit");
        if (s.gemms == Gemms::dense)
          refuse("schedule.moe.gemms: grouped or by_load, because dense computes each expert by separate calls");
        if (s.shadows())
          refuse("schedule.moe.hot_experts: stay, because the rows of shadows are computed by separate calls");
      },
      // If a recipe leaves this choice open, a duel decides instead of trials.
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) { return s.fused.has_value(); },
      .keeps_bits = true}),

  choice("compute_share", [](auto& s) -> auto& { return s.compute_share; },
    ChoiceFacts{.meaning = "share of the threads of a rank (train.threads; at least one thread) or, on a GPU, of the "
                           "multiprocessors for matrix products that computes experts while other chunks of the pass "
                           "are in flight; the rest is left to communication (EPS-MoE)",
      .limits = {config::positive(), config::at_most(1)}}),

  choice("shared", [](auto& s) -> auto& { return s.shared; },
    ChoiceFacts{.meaning = "time at which shared experts and the dense MLP of model.moe.dense_residual compute",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.shared == SharedExperts::beside && at.shared_experts == 0 && !at.dense_residual)
          no.add("needs shared experts or a dense MLP, but model.moe.shared_experts is 0 and model.moe.dense_residual "
                 "is false; legal here: after");
      },
      .matters = [](const ScheduleSite& at) { return at.ep * at.etp > 1; },
      .varied = {{"after"}, {"beside"}}}),

  choice("hot_experts", [](auto& s) -> auto& { return s.hot_experts; },
    ChoiceFacts{.meaning = "treatment of hot experts, which get far more rows than others (hot_load); each forward "
                           "determines them from the counts of all ranks",
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (!s.shadows()) return;
        if (s.rows == ep::RowOf::token)
          no.add("needs schedule.moe.rows: slot, because the row of a token for a rank is counted as a whole, and a "
                 "rank cannot tell which part of it is not sent; legal here: stay");
        if (s.memory_limit)
          no.add("needs schedule.moe.memory_limit: none, because a limit does not count copies of weights; legal here: "
                 "stay");
      },
      .matters = [](const ScheduleSite& at) { return at.ep > 1; },
      .varied = {{"stay", "hot_load=auto"}, {"shadow", "hot_load=1"}}}),

  choice("hot_load", [](auto& s) -> auto& { return s.hot_load; },
    ChoiceFacts{.meaning = "minimum load of a hot expert, as a multiple of the mean load; only the "
                           "experts with the highest loads are hot, at most as many as a rank has",
      .automatic = "2, and the rows of a hot expert must be at least as large as its weights",
      .limits = {config::at_least(1)},
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (s.hot_load && !s.shadows())
          no.add("is read only by schedule.moe.hot_experts: shadow; set hot_experts: shadow, or hot_load: auto");
      }}),

  choice("capacity_padding", [](auto& s) -> auto& { return s.capacity_padding; },
    ChoiceFacts{.meaning = "rows that a rank sends to an expert",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.capacity_padding == CapacityPadding::none) return;
        const auto refuse = [&](std::string_view why) { no.add(why, "; or capacity_padding: none"); };
        if (!at.has_capacity) refuse("fills the capacity of experts: model.moe.capacity_factor must be set");
        if (s.rows == ep::RowOf::token) refuse("pads rows of slots: schedule.moe.rows must be slot");
        if (s.is_chunked() || (s.overlaps_collectives() && !s.returns_in_phases()))
          refuse("pads the rows of a whole micro-batch: schedule.moe.chunk_by must be none, and schedule.moe.overlap "
                 "must be sequential unless duplicates is pause_after_gate");
        if (s.memory_reuse != ReuseStrategy::none)
          refuse("sends rows without a slot, which schedule.moe.memory_reuse cannot restore: memory_reuse must be none");
        if (s.shadows())
          refuse("pads the rows of every expert, but the rows of hot experts are not sent: schedule.moe.hot_experts must "
                 "be stay");
      },
      .matters = [](const ScheduleSite& at) { return at.ep * at.etp > 1; },
      .varied = {{"none"}, {"full"}}})};
// clang-format on

/// Calls v(key, access, facts) for every choice. access(s) returns the member of s, a MoeSchedule or MoeScheduleConfig,
/// that stores the choice.
template <class V>
void each_choice(V&& v) {
  std::apply([&](const auto&... choices) { (v(choices.key, choices.of, choices.facts), ...); }, moe_choices);
}

}  // namespace hexad::moe
