#include "tools/plan/memory_savings.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/base/units.h"
#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

using base::human_bytes;

namespace {

// True if several ranks share the state of a weight, so that ZeRO can divide it. These ranks differ along dp and cp for
// dense weights, and along edp for experts.
bool shares_state(const Recipe& r, int64_t world) {
  using base::Axis;
  const mesh::Layout layout(r.parallel.sizes(), static_cast<int>(world));
  if (layout.size(Axis::dp) * layout.size(Axis::cp) > 1) return true;
  return r.model.moe.experts > 0 && layout.size(Axis::edp) > 1;
}

}  // namespace

std::vector<MemorySaving> memory_savings(const Recipe& r, int64_t world) {
  std::vector<MemorySaving> all;
  const auto add = [&](std::string text, std::function<void(Recipe&)> make) {
    all.push_back({std::move(text), std::move(make)});
  };
  const bool shares = shares_state(r, world);
  for (int64_t zero = std::max<int64_t>(r.parallel.zero, 0) + 1; zero <= 3 && shares; ++zero)
    add(base::cat("parallel.zero: ", zero), [zero](Recipe& c) { c.parallel.zero = zero; });
  if (r.recompute < layers::Recompute::norms)
    add("recompute: norms", [](Recipe& c) { c.recompute = layers::Recompute::norms; });
  if (r.recompute < layers::Recompute::attention)
    add("recompute: attention", [](Recipe& c) { c.recompute = layers::Recompute::attention; });
  if (r.model.moe.experts > 0 && r.schedule.moe.memory_reuse == moe::ReuseStrategy::none &&
      r.recompute != layers::Recompute::block)
    add("schedule.moe.memory_reuse: s4", [](Recipe& c) { c.schedule.moe.memory_reuse = moe::ReuseStrategy::s4; });
  if (r.recompute != layers::Recompute::block)
    add("recompute: block", [](Recipe& c) { c.recompute = layers::Recompute::block; });
  if (r.offload.optimizer == optim::StateOffload::none)
    add("offload.optimizer: file", [](Recipe& c) { c.offload.optimizer = optim::StateOffload::file; });
  if (!r.offload.activations) add("offload.activations: true", [](Recipe& c) { c.offload.activations = true; });
  return all;
}

std::string savings_text(const Recipe& recipe, int64_t world, double limit, double need,
                         const std::function<double(const Recipe&)>& needed, double patience) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  constexpr double spread = 4;  // ratio of the slowest estimate's time (memory reuse) to the time of other estimates
  std::string enough, best;
  double least = need, longest = 0, before = 0;
  bool stopped = false;
  for (const MemorySaving& saving : memory_savings(recipe, world)) {
    stopped = elapsed() + spread * longest > patience;
    if (stopped) break;
    Recipe changed = recipe;
    saving.make(changed);
    if (changed.schedule.moe.memory_reuse && !contradictions(changed, changed.schedule.moe.settled()).empty()) continue;
    const double bytes = needed(changed);
    const double now = elapsed();
    longest = std::max(longest, now - before), before = now;
    const std::string text = base::cat(saving.text, " (", human_bytes(bytes), ")");
    if (bytes <= limit) enough += (enough.empty() ? "" : ", ") + text;
    if (bytes < least) least = bytes, best = text;
  }
  if (!enough.empty()) return "; each of these changes is sufficient: " + enough;
  if (best.empty()) return "";
  return (stopped ? "; no estimated change is sufficient; the most effective change is "
                  : "; no single change is sufficient; the most effective change is ") +
         best;
}

}  // namespace hexad::plan
