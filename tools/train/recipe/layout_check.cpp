#include "tools/train/recipe/layout_check.h"

#include <algorithm>

#include "framework/config/constraints.h"
#include "tools/train/recipe/stages.h"

namespace hexad::train {
namespace {

using base::cat;
using config::nearest_multiples;
using config::Problems;

void check_heads(const Recipe& r, Problems& problems) {
  const int64_t tp = r.parallel.tp, groups = r.model.key_value_heads();
  check_divisible(problems, "model.heads", r.model.heads, "parallel.tp", tp);
  if (problems.good({"model.kv_heads", "parallel.tp"}) && groups % tp != 0 && tp % groups != 0)
    problems.add("model.kv_heads", cat("must divide or be divisible by parallel.tp (", tp,
                                       "); nearest: ", nearest_multiples(groups, tp)));
  if (r.model.vocab > 0 && r.model.vocab < tp)
    problems.add("parallel.tp", cat("must be at most model.vocab (", r.model.vocab, ")"));
  if (r.parallel.cp == 1 || r.parallel.cp_kind != cp::ContextKind::ulysses) return;
  const int64_t ranks = tp * r.parallel.cp;
  if (r.model.heads % ranks != 0)
    problems.add("model.heads",
                 cat("must be divisible by parallel.tp x parallel.cp (", tp, " x ", r.parallel.cp, " = ", ranks,
                     ") for cp_kind: ulysses; nearest: ", nearest_multiples(r.model.heads, ranks)));
  else if (groups % ranks != 0 && ranks % groups != 0)
    problems.add("model.kv_heads", cat("must divide or be divisible by parallel.tp x parallel.cp (", ranks,
                                       ") for cp_kind: ulysses; nearest: ", nearest_multiples(groups, ranks)));
}

void check_delta_nets(const Recipe& r, Problems& problems) {
  const layers::DeltaNetConfig& d = r.model.delta_net;
  if (!d.used()) return;
  check_divisible(problems, "model.delta_net.heads", d.heads, "parallel.tp", r.parallel.tp);
  check_divisible(problems, "model.delta_net.key_heads", d.number_of_key_heads(), "parallel.tp", r.parallel.tp);
  const int64_t cp = r.parallel.cp, piece = r.model.context / (2 * cp);
  if (cp > 1 && piece < d.conv_size - 1)
    problems.add("model.delta_net.conv_size", cat("must be at most ", piece + 1,
                                                  ", one more than the length of a piece of a sequence, "
                                                  "model.context / (2 x parallel.cp) = ",
                                                  piece));
}

void check_tokens(const Recipe& r, Problems& problems) {
  const int64_t cp = r.parallel.cp, tp = r.parallel.tp;
  if (!problems.good({"parallel.cp", "parallel.tp", "batch.micro", "model.context"})) return;
  if (cp > 1 && r.model.context % (2 * cp) != 0)
    return problems.add("model.context", cat("must be divisible by 2 x parallel.cp (2 x ", cp, " = ", 2 * cp,
                                             "), the number of pieces of a sequence; nearest: ",
                                             nearest_multiples(r.model.context, 2 * cp)));
  const bool split = r.parallel.sp || r.model.moe.experts > 0;  // MoE layers always divide the tokens
  const int64_t rows = r.batch.micro * r.model.context / cp;
  if (split && rows % tp != 0)
    problems.add("parallel.tp",
                 cat("must divide the number of tokens of a micro-batch on a rank, batch.micro x model.context / cp (",
                     r.batch.micro, " x ", r.model.context, " / ", cp, " = ", rows, "), because ",
                     r.parallel.sp ? "parallel.sp divides" : "MoE layers divide", " them among tp ranks"));
}

void check_experts(const Recipe& r, Problems& problems) {
  const int64_t etp = r.parallel.etp.value_or(r.parallel.tp);
  if (r.model.moe.experts == 0) {
    if (r.parallel.ep > 1) problems.add("parallel.ep", "must be 1 for a model without experts");
    return;
  }
  check_divisible(problems, "model.moe.experts", r.model.moe.experts, "parallel.ep", r.parallel.ep);
  if (problems.good({"model.moe.expert_hidden", "parallel.etp", "parallel.tp"}) && r.model.moe.expert_hidden < etp)
    problems.add("parallel.etp", cat("must be at most model.moe.expert_hidden (", r.model.moe.expert_hidden, ")"));
}

// Checks that the model has enough layers for the pipeline stages. The costs of layers affect only where stages begin.
// Without schedule.pipeline.split, the check therefore uses an arbitrary split. The check does not make the model,
// whose keys may have errors.
void check_stages(const Recipe& r, Problems& problems) {
  const pp::PipelineConfig pipeline = pipeline_of(r);
  try {
    const pp::StageMap stages = pp::stage_map(pipeline, static_cast<int>(r.parallel.pp));
    std::vector<int64_t> split = pipeline.split;
    if (split.empty()) {
      split.assign(stages.stages(), 1);
      split.back() += r.model.layers - stages.stages();
    }
    pp::StageSplit(stages, split, {.layers = std::vector<double>(r.model.layers, 1.0)});
  } catch (const base::Error& e) {
    problems.add("schedule.pipeline", cat("does not fit the model: ", e.what()));
  }
}

void check_batch(const Recipe& r, int64_t world, Problems& problems) {
  check_divisible(problems, "batch.global", r.batch.global, "batch.micro", r.batch.micro);
  if (world <= 0 || !problems.good({"parallel", "batch"})) return;
  const int64_t dp = world / (r.parallel.pp * r.parallel.cp * r.parallel.tp);
  if (dp <= 0 || r.batch.global / r.batch.micro % dp == 0) return;
  int64_t micro = r.batch.global % dp == 0 ? r.batch.micro : 0;  // largest legal value up to batch.micro; 0: none
  while (micro > 0 && r.batch.global / dp % micro != 0) --micro;
  problems.add("batch.global",
               cat("must be divisible by batch.micro x dp (", r.batch.micro, " x ", dp, " = ", r.batch.micro * dp,
                   "); nearest: ", nearest_multiples(r.batch.global, r.batch.micro * dp),
                   micro > 0 ? cat("; or batch.micro: ", micro) : ""));
}

// Checks that the layout is possible on `world` ranks. If `world` is 0, checks only parallel.order, because an illegal
// order is illegal for every number of ranks.
void check_ranks(const Recipe& r, int64_t world, Problems& problems) {
  try {
    if (r.parallel.order) mesh::AxisOrder{*r.parallel.order};
    if (world > 0)
      mesh::Layout(r.parallel.sizes(), static_cast<int>(world));
    else if (r.parallel.order)
      r.parallel.smallest_layout();
  } catch (const mesh::IllegalLayout& e) {
    problems.add(e.key(), e.reason());
  }
}

}  // namespace

void check_layout(const Recipe& r, int64_t world, Problems& problems) {
  if (problems.good({"model", "parallel", "batch.micro"})) {
    check_heads(r, problems);
    check_delta_nets(r, problems);
    check_tokens(r, problems);
  }
  check_experts(r, problems);
  if (problems.good({"model", "parallel", "schedule.pipeline"})) check_stages(r, problems);
  if (problems.good({"parallel"})) check_ranks(r, world, problems);
  check_batch(r, world, problems);
}

void check_divisible(config::Problems& problems, std::string_view path, int64_t value, std::string_view by,
                     int64_t divisor) {
  if (problems.good({path, by}) && value % divisor != 0)
    problems.add(path, base::cat("must be divisible by ", by, " (", divisor,
                                 "); nearest: ", config::nearest_multiples(value, divisor)));
}

}  // namespace hexad::train
