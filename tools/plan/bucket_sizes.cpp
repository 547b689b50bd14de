#include "tools/plan/bucket_sizes.h"

#include <algorithm>
#include <ranges>

namespace hexad::plan {

using namespace train;

namespace {

using base::Axis;

constexpr int64_t alignment = 16;  // elements

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

std::vector<BucketSize> bucket_sizes(const Recipe& r, const mesh::Layout& layout,
                                     std::span<const HeldParameters> held) {
  const int64_t sum_bytes = base::size_of(base::accumulator_dtype(dtype_of(r.train.precision)));
  // Where experts are shared like all else, their gradients are summed over the same ranks.
  const bool own_groups = layout.size(Axis::ep) * layout.size(Axis::etp) > 1;
  const auto together = [&](const HeldParameters& a, const HeldParameters& b) {
    return a.sharers == b.sharers && a.accumulator == b.accumulator && a.two_stages == b.two_stages &&
           (!own_groups || a.expert == b.expert);
  };
  std::vector<BucketSize> all, open;
  int64_t open_bytes = 0;
  size_t unit = 0;
  const auto close = [&] {
    for (BucketSize& b : open) {
      b.like.elements = rounded_up(b.like.elements, alignment * b.like.sharers);
      all.push_back(std::move(b));
    }
    unit += open.empty() ? 0 : 1;
    open.clear();
    open_bytes = 0;
  };
  bool in_experts = false;
  int layer = -1;
  for (const HeldParameters& h : held | std::views::reverse) {
    if (h.expert && !in_experts) ++layer;
    in_experts = h.expert;
    auto at = std::ranges::find_if(open, [&](const BucketSize& b) { return together(b.like, h); });
    if (at == open.end()) {
      at = open.insert(
          at, {.like = h, .unit = unit, .entries = {}, .layers = {}, .zero = h.sharers == 1 ? 0 : r.parallel.zero});
      // Stages do not use a tied embedding at the same time: its weights stay whole.
      if (h.two_stages) at->zero = std::min<int64_t>(at->zero, 2);
      at->like.elements = 0;
    }
    at->like.elements = rounded_up(at->like.elements, alignment) + h.elements;
    at->entries.push_back(h.elements);
    if (!h.one_product) at->largest_sum = std::max(at->largest_sum, h.elements);
    if (h.expert) at->layers.insert(layer);
    open_bytes += h.elements * sum_bytes;
    if (open_bytes >= r.distributed.bucket_bytes) close();
  }
  close();
  return all;
}

}  // namespace hexad::plan
