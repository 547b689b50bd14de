// The recipe's section `schedule.moe`: choices that are made, and choices that are left to the program.
#pragma once

#include <optional>
#include <string>

#include "framework/config/byte_size.h"
#include "framework/config/constraints.h"
#include "layers/moe/schedule/moe_schedule.h"

namespace hexad::moe {

/// An unset choice is the program's (`auto`): tools/plan/schedule_choice.h.
struct MoeScheduleConfig {
  std::optional<Duplicates> duplicates = Duplicates::pause_before_gate;
  std::optional<Overlap> overlap = Overlap::sequential;
  std::optional<Cut> cut = Cut::none;
  std::optional<int64_t> chunks{};
  std::optional<ep::EspExchange> esp_exchange{};
  ep::AllToAll all_to_all = ep::AllToAll::direct;
  std::optional<ep::RowOf> rows = ep::RowOf::slot;
  std::optional<ReuseStrategy> memory_reuse = ReuseStrategy::none;
  std::optional<config::ByteSize> memory_limit{};
  kernels::WireFormat wire = kernels::WireFormat::model;
  std::optional<std::string> order = MoeSchedule{}.order;
  double compute_share = 1;
  Products products = Products::grouped;
  std::optional<int64_t> dense_rows{};
  SharedExperts shared = SharedExperts::after;
  double trial_share = 0.03;

  /// What is chosen here; where the choice is left open, what is done until it is made.
  MoeSchedule settled() const {
    MoeSchedule s{.duplicates = duplicates.value_or(Duplicates::pause_before_gate),
                  .overlap = overlap.value_or(Overlap::sequential),
                  .cut = cut.value_or(Cut::none),
                  .esp_exchange = esp_exchange,
                  .all_to_all = all_to_all,
                  .rows = rows.value_or(ep::RowOf::slot),
                  .memory_reuse = memory_reuse.value_or(memory_limit ? ReuseStrategy::s4 : ReuseStrategy::none),
                  .memory_limit = memory_limit,
                  .wire = wire,
                  .order = order.value_or(MoeSchedule{}.order),
                  .compute_share = compute_share,
                  .products = products,
                  .dense_rows = dense_rows,
                  .shared = shared};
    s.chunks = chunks.value_or(s.overlaps() ? 2 : 1);
    return s;
  }
  /// Whether the program has anything to choose. An ESP exchange that is left open is chosen with the rest, never by
  /// itself.
  bool open() const {
    return !duplicates || !overlap || !cut || !rows || !memory_reuse || (!chunks && settled().overlaps()) ||
           (!order && settled().is_cut());
  }

  template <class V>
  void fields(V& v) {
    using namespace config;
    v("duplicates", duplicates,
      "tokens that tensor-parallel ranks hold alike: baseline (DeepSpeed-MoE), replicated (MoNTA's baseline), drop "
      "(DTD, MoNTA O1), pause_before_gate (Parm S1), pause_after_gate (Parm S2); auto: chosen in the first steps",
      automatic);
    v("overlap", overlap,
      "collectives in flight together: sequential, a2a_allgather (MoNTA O2, Parm SAA), a2a_allgather_copy (MoNTA O3); "
      "auto: chosen in the first steps",
      automatic);
    v("cut", cut,
      "chunks of a micro-batch that the experts compute one after another: none, tokens (MPMoE), nodes (FasterMoE), "
      "experts (EPS-MoE); auto: chosen in the first steps",
      automatic);
    v("chunks", chunks,
      "how many, of the cut or of the overlapped collectives; auto: one where nothing overlaps, else chosen in the "
      "first steps",
      automatic, at_least(1), at_most(1024));
    v("trial_share", trial_share,
      "steps, as a share of train.steps, in which the schedules that are predicted to be the fastest are timed before "
      "one is chosen; 0: the prediction alone decides",
      at_least(0), at_most(0.5));
    v("esp_exchange", esp_exchange,
      "how rows reach the etp ranks that share an expert: gather (sent to one, gathered among them), direct (sent to "
      "each: Parm's EP&ESP-AlltoAll), held (each is sent its own copy); auto: held for baseline and replicated, else "
      "gather, or with other choices that are auto the faster of gather and direct",
      automatic);
    v("all_to_all", all_to_all,
      "how rows travel between ranks: direct, or hierarchical (inside the nodes to the rank at the place of the "
      "destination, from there between the nodes, so that a rank sends each other node one message: DeepSpeed-MoE, "
      "Tutel's 2DH), which needs as many ranks of an all-to-all on each of its nodes");
    v("rows", rows,
      "what travels as one row: slot (every expert of a token gets a copy and returns its result) or token (every rank "
      "that has any of its experts gets one copy and returns one weighted sum: EPS-MoE); auto: chosen in the first "
      "steps",
      automatic);
    v("memory_reuse", memory_reuse,
      "how expert inputs and middles come back in backward: none (they are kept), or MPMoE's s1 (offload both), s2 "
      "(send again, "
      "offload), s3 (offload, compute again), s4 (send again, compute again); a recomputed block (recompute: block) "
      "keeps; auto: none where the memory it needs, whatever experts tokens choose, is within memory.limit_bytes, else "
      "the fastest of the others, with the rest of the limit as memory_limit",
      automatic);
    v("memory_limit", memory_limit,
      "bytes that a pass's buffers take at most on a rank, under any routing: tokens are cut into as many chunks as "
      "that "
      "needs; none: no limit; needs memory_reuse other than none",
      at_least(1));
    v("wire", wire,
      "rows between ranks: model (as they are computed) or fp8 (e4m3 with a scale a row, which rounds to 4 bits)");
    v("order", order,
      "of the steps of a cut pass: alternating (sending and returning in turn: MPMoE), weights_last (no result waits "
      "for "
      "weight gradients), returns_last (all is sent before anything returns: Tutel, FasterMoE), or the name of a "
      "registered order; auto: chosen in the first steps",
      automatic);
    v("compute_share", compute_share,
      "of a rank's threads (train.threads) that experts compute with while other chunks of their pass are on their "
      "way, "
      "at least one: the rest is left to communication (EPS-MoE)",
      positive(), at_most(1));
    v("products", products,
      "kernel calls of a product of several experts: grouped (one for all), dense (one for each expert that has rows), "
      "by_load (dense where the experts of a call have dense_rows on average, else grouped: EPS-MoE)");
    v("dense_rows", dense_rows,
      "rows an expert, on average over those of a call that have any, from which products: by_load is dense; "
      "auto: 256, where EPS-MoE's GPUs turn (4096 rows of 16 experts)",
      automatic, at_least(1));
    v("shared", shared,
      "when shared experts compute: after (the routed experts' results have returned), or beside (rows are on their "
      "way "
      "to the routed experts, and in backward gradients)");
  }
};

}  // namespace hexad::moe
