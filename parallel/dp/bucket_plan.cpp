#include "parallel/dp/bucket_plan.h"

#include <algorithm>
#include <ranges>

#include "parallel/dp/owned.h"

namespace hexad::dp {

using namespace base;
namespace {

// Alignment of parameters and pieces, in elements: 32 bytes of bf16, 64 of f32 (one cache line), and 128 of f64.
constexpr int64_t alignment = 16;

int64_t rounded_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Returns the bytes of the parameter's gradient, averaged over the ranks. All ranks must divide the parameters into the
// same units, although the ranks' shards may differ in size. The average is the same on all ranks.
int64_t average_bytes(const Parameter& p) {
  int64_t elements = p.global_shape().numel();
  for (const Shard& s : p.placement().shards) elements /= s.parts;
  return elements * size_of(accumulator_dtype(p.dtype()));
}

bool spans_stages(const Parameter& p, const mesh::Mesh& mesh) {
  const auto& partial = p.placement().partial;
  return mesh.size(Axis::pp) > 1 && std::find(partial.begin(), partial.end(), Axis::pp) != partial.end();
}

Bucket empty_bucket_for(const Parameter& p, const mesh::Mesh& mesh, Zero asked, size_t unit) {
  const comm::ProcessGroup& group = mesh.reducers(p.placement());
  const bool two_stages = spans_stages(p, mesh);
  Zero zero = group.size() == 1 ? Zero::nothing : two_stages ? std::min(asked, Zero::gradients) : asked;
  // Frozen parameters have no states and no gradients, so only their weights can be sharded.
  if (!p.trainable() && zero != Zero::weights) zero = Zero::nothing;
  return {&group, p.dtype(), zero, two_stages, p.trainable(), unit, {}};
}

}  // namespace

int64_t suitable_unit_bytes(int ranks, bool on_gpus) {
  constexpr int64_t mebibyte = 1 << 20;
  return on_gpus ? std::clamp(4 * ranks * mebibyte, 32 * mebibyte, 512 * mebibyte) : 4 * mebibyte;
}

FlatRange Bucket::share(const Entry& e) const {
  const FlatRange mine = intersection(piece(), {e.begin, e.begin + e.parameter->shape().numel()});
  return mine.empty() ? FlatRange{} : FlatRange{mine.begin - e.begin, mine.end - e.begin};
}

Tensor Bucket::view(const Tensor& memory, const Entry& e) {
  return memory.slice(0, e.begin, e.begin + e.parameter->shape().numel()).reshape(e.parameter->shape());
}

Tensor Bucket::share_of_piece(const Tensor& memory, const Entry& e) const {
  const FlatRange mine = share(e);
  if (mine.empty()) return memory.slice(0, 0, 0);
  const int64_t begin = e.begin + mine.begin - piece().begin;
  return memory.slice(0, begin, begin + mine.size());
}

BucketPlan::BucketPlan(ParameterSet& parameters, const mesh::Mesh& mesh, const Options& options)
    : device_(parameters.device()) {
  std::vector<Bucket> open;
  int64_t open_bytes = 0;
  size_t unit = 0;
  const auto close = [&] {
    for (Bucket& b : open) {
      b.elements = rounded_up(b.elements, alignment * b.group->size());
      buckets_.push_back(std::move(b));
    }
    unit += !open.empty();
    open.clear();
    open_bytes = 0;
  };
  std::vector<Parameter*> in_order;
  for (const auto& p : parameters) in_order.push_back(p.get());
  for (Parameter* p : in_order | std::views::reverse) {
    const Bucket wanted = empty_bucket_for(*p, mesh, options.zero, unit);
    auto at = std::find_if(open.begin(), open.end(), [&](const Bucket& b) {
      return b.group == wanted.group && b.dtype == wanted.dtype && b.two_stages == wanted.two_stages &&
             b.trainable == wanted.trainable;
    });
    if (at == open.end()) at = open.insert(at, wanted);
    const int64_t begin = rounded_up(at->elements, alignment);
    at->entries.push_back({p, begin});
    at->elements = begin + p->shape().numel();
    if ((open_bytes += average_bytes(*p)) >= options.unit_bytes) close();
  }
  close();
  shard(mesh);
}

void BucketPlan::shard(const mesh::Mesh& mesh) {
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (size_t i = 0; i < buckets_[b].entries.size(); ++i) {
      const Bucket::Entry& e = buckets_[b].entries[i];
      e.parameter->shard({.share = buckets_[b].share(e),
                          .owns_share_only = buckets_[b].zero != Zero::nothing,
                          .counts = in_first_group(*e.parameter, mesh)});
      places_[e.parameter] = {b, i};
    }
}

BucketPlan::Place BucketPlan::place(const Parameter& parameter) const {
  const auto it = places_.find(&parameter);
  require(it != places_.end(), "[buckets] ", parameter.name(), " is in no bucket; expected one of the ", places_.size(),
          " parameters that the plan was made for");
  return it->second;
}

}  // namespace hexad::dp
