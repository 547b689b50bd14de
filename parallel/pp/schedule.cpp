#include "parallel/pp/schedule.h"

#include "framework/base/error.h"
#include "framework/base/ordinal.h"
#include "parallel/pp/program.h"

namespace hexad::pp {
namespace {

std::vector<Action> actions_of(const PipelineConfig& config, const Position& at) {
  switch (config.kind) {
    case PipelineKind::gpipe:
      return gpipe(at);
    case PipelineKind::one_f_one_b:
      return config.overlap == Overlap::none ? one_f_one_b(at) : one_f_one_b_in_pairs(at);
    case PipelineKind::interleaved:
      return interleaved(at);
    case PipelineKind::zb_h1:
      return zb_h1(at);
    case PipelineKind::zb_v:
      return zb_v(at);
    case PipelineKind::dualpipe_v:
      return dualpipe_v(at);
  }
  base::fail_invariant(
      base::cat("[pp] the schedule's kind is ", static_cast<int>(config.kind), "; expected a PipelineKind"));
}

void require_positive(std::string_view what, int value) {
  if (value < 1) base::fail(base::ExitCode::usage, what, " (", value, ") must be at least 1");
}

}  // namespace

Schedule make_schedule(const PipelineConfig& config, int ranks, int micro_batches) {
  require_positive("parallel.pp", ranks);
  require_positive("schedule.pipeline.virtual_stages", config.stages_a_rank());
  require_positive("micro-batches per step of each pipeline (batch.global / batch.micro / parallel.dp)", micro_batches);
  if (config.overlap != Overlap::none && !config.has_pairs())
    base::fail(base::ExitCode::usage, "schedule.pipeline.overlap is micro_batches, but kind ", name_of(config.kind),
               " has no pairs of a forward and a backward; legal kinds: 1f1b, dualpipe_v");
  Schedule schedule{config.kind, stage_map(config, ranks), micro_batches, {}};
  for (int rank = 0; rank < ranks; ++rank)
    schedule.ranks.push_back(actions_of(config, {rank, ranks, schedule.stages.stages_a_rank, micro_batches}));
  return schedule;
}

Schedule forwards_of(Schedule schedule) {
  schedule.phase = Phase::evaluation;
  for (auto& actions : schedule.ranks) {
    std::erase_if(actions, [](const Action& a) { return !a.is_forward(); });
    for (Action& a : actions) a.merged = false;
  }
  return schedule;
}

std::string to_string(const Action& a) { return base::cat("FBIW"[base::ordinal(a.kind)], a.local_stage, '.', a.micro); }

std::ostream& operator<<(std::ostream& out, const Action& action) { return out << to_string(action); }

std::string to_string(std::span<const Action> actions) {
  std::string text;
  for (size_t i = 0; i < actions.size(); ++i) {
    if (i > 0) text += actions[i - 1].merged ? '+' : ' ';
    text += to_string(actions[i]);
  }
  return text;
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.ranks) text += to_string(actions) + '\n';
  return text;
}

}  // namespace hexad::pp
