#include "layers/moe/trip_order.h"

#include <array>

#include "framework/base/error.h"

namespace hexad::moe {
namespace {

using base::cat;
using enum Stage;

constexpr size_t stage_count = 4;
constexpr size_t buffers = 2;

std::string name_of(TripStep step) {
  constexpr char letters[stage_count] = {'S', 'C', 'R', 'W'};
  return cat(letters[static_cast<size_t>(step.stage)], step.chunk);
}

// What is done of every chunk so far.
class Done {
 public:
  explicit Done(size_t chunks) : chunks_(chunks) {}

  bool has(TripStep s) const { return chunks_[s.chunk][static_cast<size_t>(s.stage)]; }
  void add(TripStep s) {
    chunks_[s.chunk][static_cast<size_t>(s.stage)] = true;
    under_way_ += s.stage == dispatch ? 1 : 0;
    under_way_ -= s.stage == combine ? 1 : 0;
  }
  size_t under_way() const { return under_way_; }

 private:
  std::vector<std::array<bool, stage_count>> chunks_;
  size_t under_way_ = 0;
};

// Steps that have to come before this one.
std::vector<TripStep> needed_by(TripStep s) {
  std::vector<TripStep> needed;
  if (s.stage != dispatch) needed.push_back({s.stage == compute ? dispatch : compute, s.chunk});
  if (s.stage == weights && s.chunk > 0) needed.push_back({weights, s.chunk - 1});
  return needed;
}

std::vector<TripStep> alternating(size_t chunks) {
  std::vector<TripStep> steps{{dispatch, 0}};
  for (size_t c = 0; c < chunks; ++c) {
    if (c + 1 < chunks) steps.push_back({dispatch, c + 1});
    for (Stage stage : {compute, combine, weights}) steps.push_back({stage, c});
  }
  return steps;
}

std::vector<TripStep> weights_last(size_t chunks) {
  std::vector<TripStep> steps = alternating(chunks);
  std::erase_if(steps, [](TripStep s) { return s.stage == weights; });
  for (size_t c = 0; c < chunks; ++c) steps.push_back({weights, c});
  return steps;
}

std::vector<TripStep> returns_last(size_t chunks) {
  std::vector<TripStep> steps;
  for (size_t c = 0; c < chunks; ++c) steps.push_back({dispatch, c});
  for (size_t c = 0; c < chunks; ++c)
    for (Stage stage : {compute, weights}) steps.push_back({stage, c});
  for (size_t c = 0; c < chunks; ++c) steps.push_back({combine, c});
  return steps;
}

}  // namespace

std::string to_string(std::span<const TripStep> steps) {
  std::string text;
  for (TripStep s : steps) {
    if (!text.empty()) text += ' ';
    text += name_of(s);
  }
  return text;
}

std::string why_illegal(std::span<const TripStep> steps, size_t chunks, bool bounded) {
  Done done(chunks);
  for (size_t i = 0; i < steps.size(); ++i) {
    const TripStep s = steps[i];
    const auto step = [&](const auto&... what) { return cat("step ", i + 1, " is ", name_of(s), ", but ", what...); };
    if (s.chunk >= chunks) return step("there are ", chunks, " chunks, counted from 0");
    if (done.has(s)) return step("that was a step before");
    for (TripStep needed : needed_by(s))
      if (!done.has(needed)) return step(name_of(needed), " has to come before it");
    if (bounded && s.stage == dispatch && done.under_way() == buffers)
      return step(buffers, " chunks are on their way already, which with schedule.moe.restore share ", buffers,
                  " buffers");
    done.add(s);
  }
  for (size_t c = 0; c < chunks; ++c)
    for (Stage stage : {dispatch, compute, combine, weights})
      if (const TripStep s{stage, c}; !done.has(s)) return cat("there is no step ", name_of(s));
  return {};
}

std::vector<TripStep> checked_steps(const TripOrder& order, size_t chunks, bool bounded) {
  std::vector<TripStep> steps = order.steps(chunks);
  if (const std::string why = why_illegal(steps, chunks, bounded); !why.empty())
    base::fail(base::ExitCode::usage, "schedule.moe.order (", order.name, "), of ", chunks, " chunks: ", why);
  return steps;
}

TripOrder alternating_order() { return {"alternating", alternating}; }

std::vector<TripOrder> built_in_orders() {
  return {alternating_order(), {"weights_last", weights_last}, {"returns_last", returns_last}};
}

}  // namespace hexad::moe
