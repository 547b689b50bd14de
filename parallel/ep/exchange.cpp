#include "parallel/ep/exchange.h"

namespace hexad::ep {
namespace {

InFlight exchange(const Tensor& rows, const comm::Splits& splits, int64_t received, const comm::ProcessGroup& ep,
                  Stream& stream) {
  if (ep.size() == 1) return {rows, {}};
  Tensor out = Tensor::empty({received, rows.dim(1)}, rows.dtype(), rows.device(), Category::communication);
  return {out, ep.all_to_all(out, rows, splits, stream)};
}

Tensor reorder(const Tensor& rows, const Tensor& index, Stream& stream) {
  if (!index.defined()) return rows;
  Tensor out = Tensor::like(rows);
  kernels::kernels(rows.device()).permute.gather(stream, out, rows, index);
  return out;
}

}  // namespace

InFlight send_to_experts(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& ep, Stream& stream) {
  return exchange(rows, plan.splits, plan.rows_received(), ep, stream);
}

InFlight send_to_tokens(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& ep, Stream& stream) {
  return exchange(rows, {plan.splits.receive, plan.splits.send}, plan.rows_to_send(), ep, stream);
}

Tensor group_by_expert(const RoutingPlan& plan, const Tensor& rows, Stream& stream) {
  return reorder(rows, plan.regroup, stream);
}

Tensor group_by_source(const RoutingPlan& plan, const Tensor& rows, Stream& stream) {
  return reorder(rows, plan.ungroup, stream);
}

}  // namespace hexad::ep
