#include "tools/train/recipe/schedule_check.h"

#include <algorithm>

#include "framework/config/words.h"
#include "layers/moe/schedule/memory_limit.h"
#include "layers/moe/schedule/schedule_rules.h"

namespace hexad::train {
namespace {

using base::cat;
using config::Problems;
using moe::MoeSchedule;

// Returns the reason why the order of a chunked schedule is illegal; empty if it is legal.
std::string order_problem(const MoeSchedule& s, const layers::Registry& registry) {
  if (!s.is_chunked()) return {};
  const moe::IssueOrder& order = registry.moe_order_of(s);
  // With a memory limit, a pass may have more chunks than s.chunks. Tests only the next few numbers, because an order
  // that is illegal for many chunks is probably also illegal for few chunks.
  const auto fewest = static_cast<size_t>(s.chunks), most = s.memory_limit ? fewest + 16 : fewest;
  for (size_t chunks = fewest; chunks <= most; ++chunks)
    if (const std::string why =
            issue_order_problem(order.steps(chunks), chunks, s.memory_reuse != moe::ReuseStrategy::none);
        !why.empty())
      return cat("is illegal for ", chunks, " chunks: ", why);
  if (s.joins_rows())
    if (const std::string why = in_turn_problem(order.steps(fewest)); !why.empty())
      return cat("is illegal for ", fewest, " chunks: ", why);
  return {};
}

moe::ScheduleSite site_of(const Recipe& r) {
  return {.tp = r.parallel.tp,
          .etp = r.parallel.etp.value_or(r.parallel.tp),
          .ep = r.parallel.ep,
          .sp = r.parallel.sp,
          .experts = r.model.moe.experts,
          .shared_experts = r.model.moe.shared_experts,
          .dense_residual = r.model.moe.dense_residual,
          .has_capacity = r.model.moe.capacity_factor.has_value(),
          .recomputes_blocks = r.recompute == layers::Recompute::block,
          .etp_across_tp = r.parallel.etp_across_tp(),
          .has_dense_rows = r.schedule.moe.dense_rows.has_value(),
          .fuses_experts =
              r.model.moe.expert == moe::ExpertKind::swiglu && !r.model.has_expert_bias() && !r.model.swiglu_limit,
          .least_memory_limit = [&r](moe::ReuseStrategy strategy) { return least_memory_limit(r, strategy); }};
}

}  // namespace

bool computes_alone(const moe::MoeScheduleConfig& c) {
  if (c.overlap == moe::Overlap::none) return true;
  return c.chunk_by == moe::ChunkBy::none && c.overlap == moe::Overlap::sequential && c.memory_reuse &&
         !c.memory_limit && c.shared == moe::SharedExperts::after;
}

int64_t least_memory_limit(const Recipe& r, moe::ReuseStrategy strategy) {
  const moe::MoeConfig& m = r.model.moe;
  const int64_t ep = r.parallel.ep, etp = r.parallel.etp.value_or(r.parallel.tp);
  const moe::ExpertShape shape{r.model.hidden, (m.expert_hidden + etp - 1) / etp, m.expert == moe::ExpertKind::swiglu};
  // Maximum number of slots that a rank computes if every rank sends a chunk of one token, over all possible routings.
  const int64_t there = ep * etp * std::min(m.top_k, (m.experts + ep - 1) / ep);
  return moe::buffer_bytes(m.top_k * etp, there, shape, strategy, dtype_of(r.train.precision));
}

std::vector<moe::Refusal> contradictions(const Recipe& r, const MoeSchedule& s) { return refusals(site_of(r), s); }

std::vector<MoeSchedule> legal_schedules(const Recipe& r, const layers::Registry& registry) {
  if (!r.schedule.moe.open()) return {r.schedule.moe.settled()};
  moe::ScheduleSite site = site_of(r);
  site.orders = registry.moe_order_names();
  std::vector<MoeSchedule> all = combinations(r.schedule.moe, site);
  std::erase_if(all, [&](const MoeSchedule& s) {
    // If the recipe names an order, an illegal order does not remove the schedule: check_moe_order() reports the
    // reason.
    return !refusals(site, s).empty() || (!r.schedule.moe.order && !order_problem(s, registry).empty());
  });
  return all;
}

bool chunks_open(const Recipe& r, const MoeSchedule& s) { return !r.schedule.moe.chunks && s.overlaps(); }

std::vector<int64_t> legal_chunks(const Recipe& r, const layers::Registry& registry, MoeSchedule s) {
  const auto legal = [&](int64_t chunks) {
    s.chunks = chunks;
    return contradictions(r, s).empty() && order_problem(s, registry).empty();
  };
  std::vector<int64_t> all;
  if (s.chunk_by == moe::ChunkBy::experts) {
    all = moe::divisors_from_two(r.model.moe.experts / r.parallel.ep);
    std::erase_if(all, [&](int64_t chunks) { return !legal(chunks); });
  } else {
    for (int64_t chunks = 2; chunks <= *std::rbegin(moe::chunks_tried); ++chunks)
      if (legal(chunks)) all.push_back(chunks);
  }
  if (all.empty()) all.push_back(2);
  return all;
}

void check_moe_schedule(const Recipe& r, const layers::Registry& registry, Problems& problems) {
  if (r.model.moe.experts == 0) return;
  if (!problems.good(
          {"schedule.moe", "model.moe.experts", "parallel.ep", "parallel.tp", "parallel.etp", "parallel.sp"}))
    return;
  if (r.schedule.moe.compute_share < 1 && computes_alone(r.schedule.moe))
    problems.add("schedule.moe.compute_share",
                 "leaves threads to chunks in flight, but no chunks are in flight: set schedule.moe.chunk_by "
                 "and an overlap other than none, or set compute_share: 1");
  if (r.schedule.moe.hot_experts == moe::HotExperts::shadow && !r.schedule.moe.memory_reuse)
    problems.add("schedule.moe.hot_experts",
                 "needs schedule.moe.memory_reuse: none or s1 to s4, because auto may set a memory_limit, which does "
                 "not count copies of weights; set memory_reuse, or hot_experts: stay");
  if (r.schedule.moe.redecide_every > 0 && !r.schedule.moe.open())
    problems.add(
        "schedule.moe.redecide_every",
        "has nothing to decide, because no choice of schedule.moe is auto; set redecide_every: 0, or a choice to "
        "auto");
  if (r.schedule.moe.open() && !legal_schedules(r, registry).empty()) return;
  for (const moe::Refusal& refusal : contradictions(r, r.schedule.moe.settled()))
    problems.add("schedule.moe." + refusal.key, refusal.what);
}

void check_micro_batch_overlap(const Recipe& r, int64_t world, Problems& problems) {
  if (r.schedule.pipeline.overlap == pp::Overlap::none) return;
  if (!problems.good({"schedule", "model.moe.experts", "parallel", "batch"})) return;
  const auto refuse = [&](const std::string& why) { problems.add("schedule.pipeline.overlap", why); };
  if (r.model.moe.experts == 0)
    return refuse(
        "hides the all-to-alls of MoE layers, but the model has no MoE layers (model.moe.experts is 0); set "
        "model.moe.experts, or overlap: none");
  if (r.parallel.pp > 1 && !r.schedule.pipeline.has_pairs())
    return refuse(
        cat("pairs a forward with a backward, but other stages would wait for each pair under schedule.pipeline.kind: ",
            name_of(r.schedule.pipeline.kind), "; set kind: 1f1b or dualpipe_v, or overlap: none"));
  if (r.schedule.moe.memory_limit)
    return refuse(
        cat("needs schedule.moe.memory_limit: none (now ", r.schedule.moe.memory_limit->bytes,
            " bytes): with a limit, ep groups may use different numbers of chunks and issue the messages of the two "
            "micro-batches in different orders; set memory_limit: none, or overlap: none"));
  if (r.schedule.moe.hot_experts == moe::HotExperts::shadow)
    return refuse(
        "needs schedule.moe.hot_experts: stay (now shadow): with shadow, passes differ between ep groups with and "
        "without hot experts, and these groups would issue the messages of the two micro-batches in different "
        "orders; set hot_experts: stay, or overlap: none");
  if (r.schedule.moe.open())
    return refuse(
        "needs a value for these keys of schedule.moe, which are auto: " + config::join(r.schedule.moe.open_keys()) +
        "; auto compares durations of passes, and these would include work of the other micro-batch; set these keys, "
        "or overlap: none");
  const int64_t dp = world / (r.parallel.pp * r.parallel.cp * r.parallel.tp);
  if (dp == 0) return;
  const int64_t micro_batches = r.batch.global / r.batch.micro / dp;
  if (micro_batches < 2)
    refuse(cat("needs at least two micro-batches per step and pipeline, but batch.global / batch.micro / dp (",
               r.batch.global, " / ", r.batch.micro, " / ", dp, ") is ", micro_batches,
               "; increase batch.global, or set overlap: none"));
}

void check_moe_order(const Recipe& r, const layers::Registry& registry, Problems& problems) {
  if (!r.schedule.moe.order) return;
  const std::string& name = *r.schedule.moe.order;
  const moe::IssueOrder* order = registry.moe_order(name);
  if (!order) {
    std::vector<std::string> names = registry.moe_order_names();
    std::ranges::stable_sort(names, {}, [&](const std::string& n) { return config::edit_distance(name, n); });
    const std::vector<std::string_view> views(names.begin(), names.end());
    return problems.add("schedule.moe.order", "is not a registered order; registered: " + config::join(views));
  }
  if (r.model.moe.experts == 0 || !problems.good({"schedule.moe", "model.moe.experts", "parallel"})) return;
  if (order->name != moe::alternating_order().name && r.schedule.moe.chunk_by == moe::ChunkBy::none)
    return problems.add("schedule.moe.order",
                        "has no chunks to order: set schedule.moe.chunk_by, or order: alternating");
  for (const MoeSchedule& s : legal_schedules(r, registry))
    if (const std::string why = order_problem(s, registry); !why.empty())
      return problems.add("schedule.moe.order", why);
}

}  // namespace hexad::train
