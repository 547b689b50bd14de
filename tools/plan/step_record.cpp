#include "tools/plan/step_record.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "layers/registry.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/recipe/stages.h"

namespace hexad::plan {
namespace {

// True if an equal step must run before each recorded step. Under ZeRO-3, the order in which weights are used depends
// on the number of micro-batches.
bool needs_equal_step_before(const train::Recipe& r) { return r.parallel.zero == 3; }

// True if repeating passes reduces the number of micro-batches that run. Assumes that two micro-batches of the
// recording step and the first micro-batch of each later step run. A recording step may run a third micro-batch, and a
// later step may repeat its first micro-batch, too.
bool repeating_is_faster(const train::Recipe& r, std::span<const int64_t> micro_batches) {
  const bool twice = needs_equal_step_before(r);
  int64_t all = twice ? 0 : repeated_micro_batches(r), run = pp::RepeatedPasses::recorded_micro_batches;
  for (const int64_t n : micro_batches) all += (twice ? 2 : 1) * n, run += twice ? 2 : 1;
  return run < all;
}

}  // namespace

std::string StepRecord::where(const device::Issue& issue) const {
  std::string names;
  for (int32_t s = issue.span; s >= 0; s = spans[s].around)
    names = names.empty() ? spans[s].name : base::cat(spans[s].name, " / ", names);
  return names;
}

bool StepRecord::is_in_span(const device::Issue& issue, std::string_view span) const {
  for (int32_t s = issue.span; s >= 0; s = spans[s].around)
    if (spans[s].name == span) return true;
  return false;
}

std::vector<bool> StepRecord::spans_of_update() const {
  std::vector<bool> of_update;
  for (const Span& span : spans)  // a span comes after its enclosing span
    of_update.push_back(span.name == "gradients: norm" || span.name == "optimizer" ||
                        (span.around >= 0 && of_update[span.around]));
  return of_update;
}

size_t StepRecord::first_in(std::string_view span) const {
  for (size_t i = 0; i < issues.size(); ++i)
    if (!issues[i].communicates() && is_in_span(issues[i], span)) return i;
  base::fail_invariant(base::cat("[plan] a recorded step has no kernel and no copy in span '", span,
                                 "'; expected at least one kernel or copy"));
}

namespace {

// True if the operation may gather updated weights (ZeRO-1 and 2). An optimizer may also gather other tensors, but
// these gathers end before the update ends.
bool is_gather_of_update(const StepRecord& record, const device::Issue& issue) {
  return issue.communicates() && issue.name == "all_gather" && record.is_in_span(issue, "optimizer");
}

// Gathers of the previous step that are still in flight when a step begins. Both steps end with the same communication.
// Therefore, the n-th last communications of both steps correspond. Other operations at the ends differ: if the host
// runs ahead, each step ends with copies of the next step's micro-batches.
class GathersInFlight {
 public:
  // `log` has the operations of `record` from number `first` on. `before` is the number of the first operation of the
  // previous step.
  GathersInFlight(const device::IssueLog& log, int32_t before, int32_t first, const StepRecord& record)
      : record_(record) {
    for (int32_t i = before; i < first; ++i)
      if (log.communicates(i)) before_.push_back(i);
    for (size_t i = 0; i < record.issues.size(); ++i)
      if (record.issues[i].communicates()) own_.push_back(i);
  }

  // Returns the gather of this step that corresponds to operation `issue` of the previous step; none if that operation
  // is not a gather of weights.
  std::optional<size_t> in_this_step(int32_t issue) const {
    const auto at = std::ranges::lower_bound(before_, issue);
    if (at == before_.end() || *at != issue) return {};
    const auto from_end = static_cast<size_t>(before_.end() - at);
    if (from_end > own_.size()) return {};
    const size_t same = own_[own_.size() - from_end];
    return is_gather_of_update(record_, record_.issues[same]) ? std::optional(same) : std::nullopt;
  }

 private:
  const StepRecord& record_;
  std::vector<int32_t> before_;  // communication of the previous step, by number in the log
  std::vector<size_t> own_;      // communication of this step, by index in the record
};

// Makes the indices in Issue::after relative to the record, whose first operation has number `first` in the log.
// Removes dependencies on earlier steps, except on gathers of weights that the previous step left in flight. To
// represent these gathers (`in_flight`), moves the record's own gathers to the beginning. The record is then one period
// of a run, in which each step hides the gathers of the previous step. A lane waits once for each gather. The gathers
// remain at the end if no operation waits for a gather of the previous step, for example in a first step.
void begin_with_gathers(StepRecord& record, int32_t first, const GathersInFlight& in_flight) {
  const size_t count = record.issues.size();
  // gather: by operation; true if the next step waits for the operation. waited: by lane and operation; true if a
  // kernel or copy of the lane already waits for the operation.
  std::vector<char> gather(count), waited(device::lane_count * count);
  for (device::Issue& issue : record.issues) {
    size_t kept = 0;
    for (const int32_t before : issue.after) {
      if (before >= first) {
        issue.after[kept++] = before - first;
        continue;
      }
      const std::optional<size_t> same = in_flight.in_this_step(before);
      if (!same) continue;
      gather[*same] = true;
      char& known = waited[base::ordinal(issue.lane) * count + *same];
      if (!known) issue.after[kept++] = static_cast<int32_t>(*same);
      if (!issue.communicates()) known = true;
    }
    issue.after.resize(kept);
  }
  if (std::ranges::find(gather, true) == gather.end()) return;

  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_partition(order, [&](size_t i) { return gather[i] != 0; });
  std::vector<int32_t> place(count);
  for (size_t at = 0; at < count; ++at) place[order[at]] = static_cast<int32_t>(at);
  std::vector<device::Issue> issues;
  issues.reserve(count);
  for (const size_t i : order) {
    device::Issue& issue = issues.emplace_back(std::move(record.issues[i]));
    if (gather[i]) issue.after.clear();  // the update of the previous step has ended
    for (int32_t& before : issue.after) before = place[before];
    std::ranges::sort(issue.after);
    const auto repeated = std::ranges::unique(issue.after);
    issue.after.erase(repeated.begin(), repeated.end());
  }
  record.issues = std::move(issues);
}

}  // namespace

StepRecord record_step(RunOnMeta& run, int64_t micro_batches, int rank) {
  device::IssueLog& log = run.issues();
  device::SpanLog& spans = run.instance().context.spans();
  run.load_ahead(micro_batches);
  log.take_issues();
  const int32_t first = log.count(), before = run.begin_of_last_step().value_or(first);
  spans.start();
  run.step(micro_batches);
  StepRecord record{.rank = rank, .issues = log.take_issues(), .groups = log.groups(), .spans = {}};
  for (device::SpanLog::Recorded& span : spans.stop().host) record.spans.push_back({std::move(span.name), span.around});
  begin_with_gathers(record, first, GathersInFlight(log, before, first, record));
  return record;
}

namespace {

// True if the kernels of all micro-batches have the same sizes and run one micro-batch after the other.
bool has_equal_kernels(const train::Recipe& r, const RoutingLoad& load) {
  const layers::ModelConfig& m = r.model;
  const bool by_router = m.moe.experts == 0 || m.moe.routing == moe::Routing::model || load.kind() != RoutingLoad::even;
  const layers::Registry built_in;
  return r.schedule.pipeline.overlap == pp::Overlap::none && by_router && built_in.feed_forward(m.mlp) &&
         built_in.router(m.moe.router);
}

}  // namespace

bool has_equal_passes(const train::Recipe& r, const RoutingLoad& load) {
  return r.parallel.zero <= 1 && has_equal_kernels(r, load);
}

bool can_repeat_passes(const train::Recipe& r, const RoutingLoad& load) {
  if (r.parallel.zero <= 1) return has_equal_passes(r, load);
  const pp::PipelineKind kind = train::pipeline_of(r).kind;
  const bool one_by_one = kind == pp::PipelineKind::gpipe || kind == pp::PipelineKind::one_f_one_b;
  return one_by_one && has_equal_kernels(r, load);
}

bool can_repeat_layers(const train::Recipe& r, const RoutingLoad& load) {
  return can_repeat_passes(r, load) && load != RoutingLoad::given &&
         train::pipeline_of(r).kind != pp::PipelineKind::dualpipe_v;
}

int64_t repeated_micro_batches(const train::Recipe& r) {
  const int64_t pairs = r.schedule.pipeline.overlap == pp::Overlap::micro_batches ? 2 : 1;
  return pairs * (r.schedule.pipeline.kind == pp::PipelineKind::interleaved ? r.parallel.pp : 1);
}

std::vector<StepRecord> record_steps(const train::Recipe& recipe, const train::Extensions& extensions,
                                     const mesh::Layout& layout, int rank, const RoutingLoad& load,
                                     std::span<const int64_t> micro_batches, const std::vector<int>& node_of_rank,
                                     std::shared_ptr<SharedByRuns> shared) {
  const bool equal_before = needs_equal_step_before(recipe);
  const bool repeating = can_repeat_passes(recipe, load) && repeating_is_faster(recipe, micro_batches);
  // Returns none if a recording shows that layers, or passes, cannot be repeated.
  const auto record = [&](bool with_layers, bool with_passes) -> std::optional<std::vector<StepRecord>> {
    RunOnMeta run(recipe, extensions, layout, rank, load, RunOnMeta::Record::issues, node_of_rank, shared);
    run.follow_spans();
    if (with_layers) run.repeat_layers();
    if (with_passes) {
      try {
        run.repeat_passes();
      } catch (const pp::PassesDiffer&) {
        return {};
      }
    } else if (with_layers) {
      run.step(std::min<int64_t>(std::ranges::max(micro_batches), pp::RepeatedPasses::recorded_micro_batches));
    } else if (!equal_before) {
      run.step(repeated_micro_batches(recipe));
    }
    std::vector<StepRecord> records;
    for (const int64_t n : micro_batches) {
      if (run.failed()) return {};  // the next step would repeat invalid layers
      if (equal_before) run.step(n);
      if (run.failed()) return {};
      records.push_back(record_step(run, n, rank));
    }
    if (run.failed()) return {};
    return records;
  };
  const bool repeats_layers = can_repeat_layers(recipe, load);
  auto records = record(repeats_layers, repeating);
  if (!records && repeats_layers) records = record(false, repeating);
  return records ? std::move(*records) : *record(false, false);
}

}  // namespace hexad::plan
