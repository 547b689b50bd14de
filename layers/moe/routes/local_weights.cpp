#include "layers/moe/routes/local_weights.h"

namespace hexad::moe {

namespace {

// Returns a view of `t` as rows of one element, [numel, 1].
Tensor as_rows(const Tensor& t) { return t.reshape({t.numel(), 1}); }

// Calls f(chunk_rows, place) for each chunk. `chunk_rows` is the chunk's part of `slot_rows`, and `place` is its
// ChunkIndices::place.
template <class F>
void for_each_placed(const Routes& routes, const Tensor& slot_rows, const F& f) {
  for (size_t c = 0; c < routes.plan.counts.chunks.size(); ++c)
    f(slot_rows.slice(0, routes.counts(c).slots_begin, routes.counts(c).slots_end),
      routes.plan.indices.chunks[c].place);
}

}  // namespace

bool experts_apply_weights(const Routes& routes, const Experts& experts) {
  return routes.settings.groups.experts->size() == 1 && !routes.rows_are_tokens() &&
         routes.settings.schedule.wire == kernels::WireFormat::model && experts.can_weight();
}

Tensor weights_of_computed(Stream& s, const Routes& routes, const Tensor& weights) {
  const auto& k = kernels_of(weights);
  const int64_t slots = routes.plan.counts.slots();
  const Tensor of_slots = Tensor::empty({slots}, weights.dtype(), weights.device());
  k.permute.scatter(s, as_rows(of_slots), as_rows(weights), routes.plan.indices.rows.reshape({weights.numel()}));
  if (!routes.plan.counts.merged) return of_slots;
  const Tensor grouped = Tensor::like(of_slots);
  for_each_placed(routes, as_rows(of_slots), [&](const Tensor& rows, const Tensor& place) {
    if (place.defined())
      k.permute.scatter(s, as_rows(grouped), rows, place);
    else
      k.pointwise.copy(s, as_rows(grouped), rows);
  });
  return grouped;
}

Tensor part_of_computation(const Routes& routes, const Tensor& computed, size_t chunk) {
  if (!computed.defined() || routes.plan.counts.merged) return computed;
  return computed.slice(0, routes.counts(chunk).slots_begin, routes.counts(chunk).slots_end);
}

void scatter_weights_to_slots(Stream& s, const Tensor& out, const Routes& routes, const Tensor& computed) {
  const auto& k = kernels_of(out);
  Tensor of_slots = as_rows(computed);
  if (routes.plan.counts.merged) {
    of_slots = Tensor::like(of_slots);
    for_each_placed(routes, of_slots, [&](const Tensor& rows, const Tensor& place) {
      if (place.defined())
        k.permute.gather(s, rows, as_rows(computed), place, {});
      else
        k.pointwise.copy(s, rows, as_rows(computed));
    });
  }
  k.permute.gather(s, as_rows(out), of_slots, routes.plan.indices.rows.reshape({out.numel()}), {});
}

}  // namespace hexad::moe
