#include "tools/plan/step_record.h"

#include <algorithm>
#include <utility>

#include "tools/plan/run_on_meta.h"

namespace hexad::plan {

std::string StepRecord::where(const device::Issue& issue) const {
  std::string names;
  for (int32_t s = issue.span; s >= 0; s = spans[s].around)
    names = names.empty() ? spans[s].name : base::cat(spans[s].name, " / ", names);
  return names;
}

StepRecord record_since(const device::IssueLog& log, size_t begin, int rank) {
  const auto first = static_cast<int32_t>(begin);
  StepRecord record{
      .rank = rank, .issues = {log.issues().begin() + first, log.issues().end()}, .groups = log.groups(), .spans = {}};
  for (device::Issue& issue : record.issues) {
    std::erase_if(issue.after, [&](int32_t i) { return i < first; });
    for (int32_t& i : issue.after) i -= first;
  }
  return record;
}

StepRecord record_step(const train::Recipe& recipe, const train::Extensions& extensions, const mesh::Layout& layout,
                       int rank, RoutingLoad load, int64_t micro_batches, const std::vector<int>& node_of_rank) {
  RunOnMeta run(recipe, extensions, layout, rank, load, RunOnMeta::Record::issues, node_of_rank);
  run.step(micro_batches);
  const size_t before = run.issues().issues().size();
  device::SpanLog& spans = run.instance().context.spans();
  spans.start();
  run.follow_spans();
  run.step(micro_batches);
  StepRecord record = record_since(run.issues(), before, rank);
  for (const device::SpanLog::Recorded& span : spans.stop().host) record.spans.push_back({span.name, span.around});
  return record;
}

}  // namespace hexad::plan
