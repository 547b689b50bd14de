#include "tools/plan/step_record.h"

#include <algorithm>
#include <utility>

#include "layers/registry.h"
#include "tools/plan/run_on_meta.h"

namespace hexad::plan {
namespace {

// True if fewer micro-batches are run if passes are repeated: those of the recording step, and the first and the last
// of each step.
bool repeating_is_faster(const train::Recipe& r, std::span<const int64_t> micro_batches) {
  int64_t all = repeated_micro_batches(r), run = pp::RepeatedPasses::recorded_micro_batches;
  for (const int64_t n : micro_batches) all += n, run += std::min<int64_t>(n, 2);
  return run < all;
}

}  // namespace

std::string StepRecord::where(const device::Issue& issue) const {
  std::string names;
  for (int32_t s = issue.span; s >= 0; s = spans[s].around)
    names = names.empty() ? spans[s].name : base::cat(spans[s].name, " / ", names);
  return names;
}

bool StepRecord::is_in(const device::Issue& issue, std::string_view span) const {
  for (int32_t s = issue.span; s >= 0; s = spans[s].around)
    if (spans[s].name == span) return true;
  return false;
}

size_t StepRecord::first_in(std::string_view span) const {
  for (size_t i = 0; i < issues.size(); ++i)
    if (!issues[i].communicates() && is_in(issues[i], span)) return i;
  base::fail_invariant(base::cat("[plan] a recorded step has no kernel and no copy in span '", span, "'"));
}

StepRecord record_step(RunOnMeta& run, int64_t micro_batches, int rank) {
  const device::IssueLog& log = run.issues();
  device::SpanLog& spans = run.instance().context.spans();
  const auto first = static_cast<int32_t>(log.issues().size());
  spans.start();
  run.step(micro_batches);
  StepRecord record{
      .rank = rank, .issues = {log.issues().begin() + first, log.issues().end()}, .groups = log.groups(), .spans = {}};
  for (const device::SpanLog::Recorded& span : spans.stop().host) record.spans.push_back({span.name, span.around});
  for (device::Issue& issue : record.issues) {  // removes dependencies on earlier steps
    std::erase_if(issue.after, [&](int32_t i) { return i < first; });
    for (int32_t& i : issue.after) i -= first;
  }
  return record;
}

bool has_equal_passes(const train::Recipe& r, const RoutingLoad& load) {
  const layers::ModelConfig& m = r.model;
  const bool by_router = m.moe.experts == 0 || m.moe.routing == moe::Routing::model || load.kind() != RoutingLoad::even;
  const layers::Registry built_in;
  return r.parallel.zero <= 1 && r.schedule.pipeline.overlap == pp::Overlap::none && by_router &&
         built_in.feed_forward(m.mlp) && built_in.router(m.moe.router);
}

int64_t repeated_micro_batches(const train::Recipe& r) {
  const int64_t pairs = r.schedule.pipeline.overlap == pp::Overlap::micro_batches ? 2 : 1;
  return pairs * (r.schedule.pipeline.kind == pp::PipelineKind::interleaved ? r.parallel.pp : 1);
}

std::vector<StepRecord> record_steps(const train::Recipe& recipe, const train::Extensions& extensions,
                                     const mesh::Layout& layout, int rank, RoutingLoad load,
                                     std::span<const int64_t> micro_batches, const std::vector<int>& node_of_rank) {
  RunOnMeta run(recipe, extensions, layout, rank, load, RunOnMeta::Record::issues, node_of_rank);
  run.follow_spans();
  // Under ZeRO-3, the order in which weights are used depends on the number of micro-batches.
  const bool same_order = recipe.parallel.zero == 3;
  if (has_equal_passes(recipe, load) && repeating_is_faster(recipe, micro_batches))
    run.repeat_passes();
  else if (!same_order)
    run.step(repeated_micro_batches(recipe));
  std::vector<StepRecord> records;
  for (const int64_t n : micro_batches) {
    if (same_order) run.step(n);
    records.push_back(record_step(run, n, rank));
  }
  return records;
}

}  // namespace hexad::plan
