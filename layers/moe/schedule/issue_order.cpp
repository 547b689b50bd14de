#include "layers/moe/schedule/issue_order.h"

#include <array>

#include "framework/base/error.h"
#include "framework/base/ordinal.h"

namespace hexad::moe {
namespace {

using base::cat;
using enum Stage;

constexpr size_t stage_count = 4;
constexpr size_t buffers = 2;

std::string name_of(IssueStep step) {
  constexpr std::string_view names[stage_count] = {"dispatch", "experts", "combine", "weight_gradients"};
  return cat(names[base::ordinal(step.stage)], "[", step.chunk, "]");
}

// Set of the steps that have been issued so far.
class Done {
 public:
  explicit Done(size_t chunks) : chunks_(chunks) {}

  bool has(IssueStep s) const { return chunks_[s.chunk][base::ordinal(s.stage)]; }
  void add(IssueStep s) {
    chunks_[s.chunk][base::ordinal(s.stage)] = true;
    under_way_ += s.stage == dispatch ? 1 : 0;
    under_way_ -= s.stage == combine ? 1 : 0;
  }
  size_t under_way() const { return under_way_; }

 private:
  std::vector<std::array<bool, stage_count>> chunks_;
  size_t under_way_ = 0;
};

// Returns the steps that must be issued before step s.
std::vector<IssueStep> needed_by(IssueStep s) {
  std::vector<IssueStep> needed;
  if (s.stage != dispatch) needed.push_back({s.stage == compute ? dispatch : compute, s.chunk});
  if (s.stage == weight_gradients && s.chunk > 0) needed.push_back({weight_gradients, s.chunk - 1});
  return needed;
}

std::vector<IssueStep> alternating(size_t chunks) {
  std::vector<IssueStep> steps{{dispatch, 0}};
  for (size_t c = 0; c < chunks; ++c) {
    if (c + 1 < chunks) steps.push_back({dispatch, c + 1});
    for (Stage stage : {compute, combine, weight_gradients}) steps.push_back({stage, c});
  }
  return steps;
}

std::vector<IssueStep> weights_last(size_t chunks) {
  std::vector<IssueStep> steps = alternating(chunks);
  std::erase_if(steps, [](IssueStep s) { return s.stage == weight_gradients; });
  for (size_t c = 0; c < chunks; ++c) steps.push_back({weight_gradients, c});
  return steps;
}

std::vector<IssueStep> returns_last(size_t chunks) {
  std::vector<IssueStep> steps;
  for (size_t c = 0; c < chunks; ++c) steps.push_back({dispatch, c});
  for (size_t c = 0; c < chunks; ++c)
    for (Stage stage : {compute, weight_gradients}) steps.push_back({stage, c});
  for (size_t c = 0; c < chunks; ++c) steps.push_back({combine, c});
  return steps;
}

}  // namespace

std::string to_string(std::span<const IssueStep> steps) {
  std::string text;
  for (IssueStep s : steps) {
    if (!text.empty()) text += ' ';
    text += name_of(s);
  }
  return text;
}

std::string issue_order_problem(std::span<const IssueStep> steps, size_t chunks, bool bounded) {
  Done done(chunks);
  for (size_t i = 0; i < steps.size(); ++i) {
    const IssueStep s = steps[i];
    const auto step = [&](const auto&... what) { return cat("step ", i + 1, " is ", name_of(s), ", but ", what...); };
    if (s.chunk >= chunks) return step("the number of chunks is ", chunks, ", and the first chunk is 0");
    if (done.has(s)) return step("an earlier step is the same");
    for (IssueStep needed : needed_by(s))
      if (!done.has(needed)) return step(name_of(needed), " must come before it");
    if (bounded && s.stage == dispatch && done.under_way() == buffers)
      return step(buffers, " chunks are in flight already, and schedule.moe.memory_reuse has only ", buffers,
                  " buffers");
    done.add(s);
  }
  for (size_t c = 0; c < chunks; ++c)
    for (Stage stage : {dispatch, compute, combine, weight_gradients})
      if (const IssueStep s{stage, c}; !done.has(s)) return cat("step ", name_of(s), " is missing");
  return {};
}

std::string in_turn_problem(std::span<const IssueStep> steps) {
  size_t computed = 0, returned = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const IssueStep s = steps[i];
    if (s.stage != compute && s.stage != combine) continue;
    size_t& next = s.stage == compute ? computed : returned;
    if (s.chunk != next)
      return cat(
          "step ", i + 1, " is ", name_of(s), ", but ", name_of({s.stage, next}),
          " must come before it, because the chunks share rows of tokens (schedule.moe.rows: token with chunk_by: "
          "experts)");
    ++next;
  }
  return {};
}

std::vector<IssueStep> checked_steps(const IssueOrder& order, size_t chunks, bool bounded) {
  std::vector<IssueStep> steps = order.steps(chunks);
  if (const std::string why = issue_order_problem(steps, chunks, bounded); !why.empty())
    base::fail(base::ExitCode::usage, "schedule.moe.order (", order.name, "), for ", chunks,
               chunks == 1 ? " chunk: " : " chunks: ", why);
  return steps;
}

IssueOrder alternating_order() { return {"alternating", alternating}; }

std::vector<IssueOrder> built_in_orders() {
  return {alternating_order(), {"weights_last", weights_last}, {"returns_last", returns_last}};
}

}  // namespace hexad::moe
