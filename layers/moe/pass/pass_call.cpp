#include "layers/moe/pass/pass_call.h"

#include "framework/schedule/executor.h"
#include "parallel/comm/rows.h"

namespace hexad::moe {

using namespace base;

RowGroups PassCall::groups(size_t chunk) const {
  const Tensor& on_device = plan().indices.chunks[chunk].offsets;
  const std::vector<int64_t>& offsets = counts(chunk).offsets;
  RowGroups groups{.computations = static_cast<int64_t>(computations())};
  if (on_device.defined()) {
    groups.rows = {
        .groups = on_device.dim(0) - 1, .max_rows = counts(chunk).rows_computed(), .host = {}, .device = on_device};
  } else {
    groups.rows = kernels::GroupOffsets::on_host(offsets);
    groups.dense = route.schedule.is_dense(offsets);
  }
  return groups;
}

MoePass PassCall::describe(const Tensor& like) const {
  MoePass pass{.plan = plan(),
               .groups = route.groups,
               .overlap = route.schedule.overlap,
               .wire = route.schedule.wire,
               .wire_kernels = route.wire_kernels,
               .rows = {.width = like.dim(1), .dtype = like.dtype(), .device = like.device()},
               .compute_share = route.schedule.compute_share,
               .order = route.order};
  if (routes.gatherers) {
    pass.gathering.group = routes.gatherers;
    pass.gathering.bytes =
        (routes.gatherers->size() - 1) * (routes.end - routes.begin) * pass.rows.width * size_of(pass.rows.dtype);
  }
  pass.experts.flops_per_row = experts->flops_per_row();
  return pass;
}

RowSource PassCall::token_rows(size_t chunk, const Tensor& rows, const Tensor& row_weights) const {
  const ep::PlanIndices& indices = plan().indices;
  return {.values = rows,
          .index = counts(chunk).of(indices.wire_tokens),
          .row_weights = counts(chunk).of(row_weights),
          .inverse = indices.chunks[chunk].offsets.defined() ? indices.rows : Tensor{}};
}

Tensor PassCall::plan_weights(const Tensor& weights, Stream& s) const {
  return routes.gatherers ? comm::all_gather_rows(weights, *routes.gatherers, s)
                          : weights.slice(0, routes.begin, routes.end);
}

void PassCall::run(const MoePass& pass, PassWork& work, PassBuffers& buffers, std::string_view name) const {
  const schedule::TaskGraph graph = make_pass_graph(pass, work, buffers);
  if (route.runner)
    route.runner->run(cat(route.name, " ", name), graph, pass.rows.device.context());
  else
    schedule::execute(graph, pass.rows.device.context());
}

SharedWork PassCall::shared_backward(Backward& b) const {
  const int64_t products = shared.products.front();
  if (products == 0) return {};
  return {.compute = [&b, first = shared_begin] { b.replay_from(first); },
          .flops = shared.flops,
          .products = {0, products, b.weights_delayed() ? 0 : products}};
}

}  // namespace hexad::moe
