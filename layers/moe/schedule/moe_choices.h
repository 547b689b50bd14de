// List of the choices of the recipe's section `schedule.moe` with keys, papers and rules. The list is used by recipes,
// their reference and checks, the names of schedules, `auto` and `hexad verify`. moe_schedule.h declares the values and
// defaults.
#pragma once

#include <string_view>
#include <tuple>

#include "framework/base/enum_names.h"
#include "layers/moe/schedule/choice.h"
#include "layers/moe/schedule/moe_schedule.h"

namespace hexad::moe {

/// List of all choices. Each entry has a key, a function that returns the member of a MoeSchedule or MoeScheduleConfig,
/// and the facts (ChoiceFacts).
// clang-format off
inline constexpr std::tuple moe_choices{
  choice("duplicates", [](auto& s) -> auto& { return s.duplicates; },
    ChoiceFacts{.meaning = "treatment of the tokens that all tensor-parallel ranks hold",
      .automatic = "chosen in the first steps",
      .always_named = true,
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
      .always_named = true,
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (s.in_sequence() && !s.is_chunked())
          no.add("needs chunks: set schedule.moe.chunk_by, or overlap: sequential");
      },
      .matters = [](const ScheduleSite& at) { return at.tp * at.etp > 1; },
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) { return s.in_sequence(); }}),

  choice("chunk_by", [](auto& s) -> auto& { return s.chunk_by; },
    ChoiceFacts{.meaning = "division of a micro-batch into chunks that the experts compute one after another",
      .automatic = "chosen in the first steps",
      .always_named = true,
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.chunk_by == ChunkBy::experts && at.experts == at.ep)
          no.add("divides the experts of a rank, but every rank has one (", at.experts, " / ", at.ep,
                 "); legal here: none, tokens, nodes");
      },
      .left_out = [](const ScheduleSite& at,
                     const MoeSchedule& s) { return at.ep == 1 && s.chunk_by == ChunkBy::nodes; }}),

  choice("chunks", [](auto& s) -> auto& { return s.chunks; },
    ChoiceFacts{.meaning = "number of chunks into which chunk_by or overlap divides the work; with duplicates: "
                           "pause_after_gate and overlap, the number of phases in which rows return (Parm: parallel.ep "
                           "x parallel.etp)",
      .automatic = "1 if nothing overlaps, else chosen in the first steps",
      .limits = {config::at_least(1), config::at_most(1024)},
      .always_named = true,
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.chunks > 1 && !s.overlaps())
          return no.add("needs schedule.moe.chunk_by or schedule.moe.overlap, which divide the work into chunks; set "
                        "chunk_by or overlap, or chunks: 1");
        if (s.chunks == 1 && s.overlaps())
          return no.add("must be at least 2 for ", s.is_chunked() ? "schedule.moe.chunk_by" : "schedule.moe.overlap",
                        ": with one chunk nothing overlaps");
        // An ep group of one rank always has one chunk or phase.
        if (s.chunk_by == ChunkBy::nodes && at.ep > 1 && s.chunks > at.ep)
          no.add("must be at most parallel.ep (", at.ep, ") for chunk_by: nodes, which divides the all-to-all by "
                 "peers");
        if (const int64_t most = s.max_phases(at);
            s.returns_in_phases() && at.ep > 1 && s.chunks > at.ep && s.chunks != most)
          no.add("must be at most parallel.ep (", at.ep, ")",
                 most > at.ep ? ", or equal to parallel.ep x parallel.etp (" : "",
                 most > at.ep ? base::cat(most, ")") : "", ", for the phases in which rows return with duplicates: "
                 "pause_after_gate and schedule.moe.overlap");
        if (s.chunk_by == ChunkBy::experts && at.experts % at.ep == 0 && at.experts != at.ep &&
            s.chunks > at.experts / at.ep)
          no.add("must be at most the number of experts on a rank (", at.experts, " / ", at.ep, " = ",
                 at.experts / at.ep, ") for chunk_by: experts");
      },
      .chosen_in = [](const MoeSchedule& s) { return s.overlaps(); },
      // Tries every divisor above 1 of a rank's number of experts if chunk_by is experts. EPS-MoE, for example, uses 5
      // and 20 chunks.
      .tried = [](const ScheduleSite& at, const MoeSchedule& s) {
        return s.chunk_by == ChunkBy::experts ? divisors_from_two(at.experts / at.ep)
                                              : std::vector<int64_t>(std::begin(chunks_tried), std::end(chunks_tried));
      }}),

  choice("esp_exchange", [](auto& s) -> auto& { return s.esp_exchange; },
    ChoiceFacts{.meaning = "transport of rows to the etp ranks that share an expert: gather (each row is sent to one "
                           "of these ranks; then these ranks gather all rows), direct (the sender of a row sends it "
                           "to all of these ranks: Parm's EP&ESP-AlltoAll), replicated (each of these ranks receives "
                           "its own copy of the row)",
      .automatic = "replicated if duplicates is baseline or replicated; otherwise gather, or, if other choices are "
                   "auto, the faster of gather and direct",
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (!s.esp_exchange) return;
        const bool replicated = *s.esp_exchange == ep::EspExchange::replicated;
        if (replicated && s.divides())
          no.add("needs schedule.moe.duplicates: baseline or replicated (now ", base::enum_name(s.duplicates),
                 "), because only these send all rows to every etp rank; legal here: auto, gather, direct");
        if (!replicated && !s.divides())
          no.add("must be auto or replicated for duplicates: baseline and replicated, which send every etp rank its "
                 "own copy");
      },
      .matters = [](const ScheduleSite& at) { return at.etp > 1; },
      // Tries only the value direct (besides the unset value), and only in schedules that divide the tokens and have
      // all_to_all: direct. Other values of all_to_all are left out, because the group of the all-to-all depends on
      // esp_exchange. The layer checks the two levels of only one group.
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) {
        return s.esp_exchange && !(*s.esp_exchange == ep::EspExchange::direct && s.divides() &&
                                   s.all_to_all == ep::AllToAll::direct);
      },
      .late = true,
      .varied = {{"auto"}, {"direct"}}}),

  choice("all_to_all", [](auto& s) -> auto& { return s.all_to_all; },
    ChoiceFacts{.meaning = "transport of rows between ranks: direct, hierarchical or window. hierarchical "
                           "(DeepSpeed-MoE, Tutel's 2DH) sends each row in two steps: first to the rank of the "
                           "sender's node that has the destination's index, then to the destination's node. A "
                           "rank thus sends one message to each other node. All nodes of an all-to-all must have the "
                           "same number of ranks. window: each rank copies rows directly into the memory of the "
                           "experts' ranks, and copies results from there. The ep ranks must be on one node. They "
                           "must be threads, or have one GPU each, connected by NCCL (docs/windows.md)",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.all_to_all != ep::AllToAll::window) return;
        const auto refuse = [&](std::string_view need) {
          no.add("needs ", need, "; legal here: direct, hierarchical");
        };
        if (at.etp > 1)
          refuse(base::cat("parallel.etp: 1 (now ", at.etp, "), because a window has a row on one rank, but all etp ",
                           "ranks need it"));
        if (s.rows == ep::RowOf::token)
          refuse("schedule.moe.rows: slot (now token), because each row in a window belongs to one expert, but with "
                 "rows: token a row is for several experts");
        if (s.wire != kernels::WireFormat::model)
          refuse("schedule.moe.wire: model (now fp8), because experts read rows from the window without a conversion");
        if (s.memory_reuse != ReuseStrategy::none)
          refuse(base::cat("schedule.moe.memory_reuse: none (now ", base::enum_name(s.memory_reuse),
                           "), because s1 to s4 send weights with the rows"));
        if (s.overlaps_collectives())
          refuse(base::cat("schedule.moe.overlap: sequential or none (now ", base::enum_name(s.overlap),
                           "), because other overlaps compute all chunks together or return rows in phases"));
        if (s.hot_experts == HotExperts::shadow)
          refuse("schedule.moe.hot_experts: stay (now shadow), because rows of hot experts are not sent to another "
                 "rank");
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
      .note = "with recompute: block, both are always kept",
      .automatic = "none if kept tensors fit into memory.limit_bytes under any routing, else the fastest of s1 to s4, "
                   "with the remaining memory as memory_limit",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.memory_reuse == ReuseStrategy::none) return;
        const auto refuse = [&](std::string_view why, std::string_view remedy) {
          no.add("needs chunks of tokens: ", why, "; set ", remedy, ", or memory_reuse: none");
        };
        if (s.chunk_by == ChunkBy::nodes || s.chunk_by == ChunkBy::experts)
          refuse(base::cat("schedule.moe.chunk_by must be none or tokens (now ", base::enum_name(s.chunk_by),
                           "), because a token's expert results are summed as soon as its chunk has returned, so one "
                           "chunk must contain them all"),
                 "chunk_by: none or tokens");
        if (s.overlaps_collectives())
          refuse(base::cat("schedule.moe.overlap must be sequential or none (now ", base::enum_name(s.overlap),
                           "), because other overlaps compute all chunks together"),
                 "overlap: sequential or none");
        if (s.duplicates == Duplicates::baseline && at.etp > 1)
          refuse(base::cat("schedule.moe.duplicates must not be baseline if parallel.etp (", at.etp,
                           ") is above 1, because etp ranks gather tokens before these are divided into chunks, but a "
                           "rank sums only its own tokens"),
                 "another value of duplicates");
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
                        "the whole micro-batch; set memory_reuse: s1 to s4, or memory_limit: none");
        if (s.all_to_all == ep::AllToAll::hierarchical)
          return no.add("needs schedule.moe.all_to_all: direct (now hierarchical), because a limit does not count "
                        "rows that a rank forwards to another rank; set all_to_all: direct, or memory_limit: none");
        if (s.rows == ep::RowOf::token)
          return no.add("needs schedule.moe.rows: slot (now token), because a limit counts only buffers of slot rows; "
                        "set rows: slot, or memory_limit: none");
        if (const int64_t least = at.least_memory_limit(s.memory_reuse); *s.memory_limit < least)
          no.add("is too small for chunks of one token; the minimum is ", least, " bytes");
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
      // Skips dense, because by_load chooses dense calls wherever they are faster. Skips by_load without a threshold,
      // because then no prediction and no paper favours it.
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
    ChoiceFacts{.meaning = "SwiGLU experts: in forward, the first product (gate and up) and the activation; in backward, "
                           "the gradients of the last product and of the activation. off: separate kernel calls; on: "
                           "one call in each direction if products are grouped (on H100 in the epilogue of the product)",
      .automatic = "in each direction the faster one in the first step, if its results are correct; "
                   "train.deterministic, verify, eval and generate use off; see docs/fused-experts.md",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.fused == Fused::off) return;
        const auto refuse = [&](std::string_view need) { no.add("needs ", need, "; legal here: off"); };
        if (!at.fuses_experts)
          refuse("model.moe.expert: swiglu, without model.moe.expert_bias and model.swiglu_limit");
        if (s.gemms == Gemms::dense)
          refuse("schedule.moe.gemms: grouped or by_load (now dense), because dense computes each expert by separate "
                 "calls");
        if (s.shadows())
          refuse("schedule.moe.hot_experts: stay (now shadow), because the rows of shadows are computed by separate "
                 "calls");
      },
      // Duels decide instead of trials if a recipe leaves this choice open.
      .left_out = [](const ScheduleSite&, const MoeSchedule& s) { return s.fused.has_value(); },
      .keeps_bits = true}),

  choice("compute_share", [](auto& s) -> auto& { return s.compute_share; },
    ChoiceFacts{.meaning = "share of a rank's threads (train.threads; at least one thread) that computes experts while "
                           "other chunks of the pass are in flight; on a GPU, the same share of the multiprocessors "
                           "for matrix products; communication uses the rest (EPS-MoE)",
      .limits = {config::positive(), config::at_most(1)},
      .varied = {{"1"}, {"0.5"}}}),

  choice("shared", [](auto& s) -> auto& { return s.shared; },
    ChoiceFacts{.meaning = "time at which shared experts and the dense MLP of model.moe.dense_residual compute",
      .excludes = [](const ScheduleSite& at, const MoeSchedule& s, Refusals& no) {
        if (s.shared == SharedExperts::beside && at.shared_experts == 0 && !at.dense_residual)
          no.add("needs shared experts or a dense MLP, but model.moe.shared_experts is 0 and model.moe.dense_residual "
                 "is false; legal here: after");
      },
      .varied = {{"after"}, {"beside"}}}),

  choice("hot_experts", [](auto& s) -> auto& { return s.hot_experts; },
    ChoiceFacts{.meaning = "treatment of hot experts, which get far more rows than other experts (hot_load); each "
                           "forward pass determines the hot experts from the counts of all ranks",
      .excludes = [](const ScheduleSite&, const MoeSchedule& s, Refusals& no) {
        if (!s.shadows()) return;
        if (s.rows == ep::RowOf::token)
          no.add("needs schedule.moe.rows: slot, because with rows: token a rank cannot tell which part of a row "
                 "belongs to a hot expert; legal here: stay");
        if (s.memory_limit)
          no.add("needs schedule.moe.memory_limit: none (now ", s.memory_limit->bytes,
                 " bytes), because a limit does not count copies of weights; legal here: stay");
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
        const auto refuse = [&](std::string_view why, std::string_view remedy) {
          no.add(why, "; set ", remedy, ", or capacity_padding: none");
        };
        if (!at.has_capacity)
          refuse("fills the capacity of experts, but model.moe.capacity_factor is not set",
                 "model.moe.capacity_factor");
        if (s.rows == ep::RowOf::token)
          refuse("pads rows of slots, but schedule.moe.rows is token", "schedule.moe.rows: slot");
        if (s.is_chunked() || (s.overlaps_collectives() && !s.returns_in_phases()))
          refuse(base::cat("pads the rows of a whole micro-batch, but schedule.moe.chunk_by is ",
                           base::enum_name(s.chunk_by), " and schedule.moe.overlap is ", base::enum_name(s.overlap)),
                 "chunk_by: none and overlap: sequential (any overlap with duplicates: pause_after_gate)");
        if (s.memory_reuse != ReuseStrategy::none)
          refuse(base::cat("sends rows without a slot, which schedule.moe.memory_reuse: ",
                           base::enum_name(s.memory_reuse), " cannot restore"),
                 "schedule.moe.memory_reuse: none");
        if (s.shadows())
          refuse("pads the rows of every expert, but schedule.moe.hot_experts: shadow sends no rows of hot experts",
                 "schedule.moe.hot_experts: stay");
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
