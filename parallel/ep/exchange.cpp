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

InFlight share_rows(const RoutingPlan& plan, const Tensor& rows, const comm::ProcessGroup& etp, Stream& stream) {
  if (etp.size() == 1) return {rows, {}};
  Tensor all = Tensor::empty({plan.rows_computed(), rows.dim(1)}, rows.dtype(), rows.device(), Category::communication);
  InFlight flight{all, {}};
  std::vector<device::Event> events;
  int64_t begin = 0;
  for (int q = 0; q < etp.size(); ++q) {
    const int64_t end = begin + plan.shared[static_cast<size_t>(q)];
    const Tensor part = all.slice(0, begin, end);
    begin = end;
    if (q == etp.rank()) {
      kernels::kernels(rows.device()).pointwise.copy(stream, part, rows);
    } else {
      events.push_back(etp.send(rows, q, stream));
      events.push_back(etp.receive(part, q, stream));
    }
  }
  for (const device::Event& e : events) stream.wait(e);
  flight.arrived = stream.record();
  return flight;
}

Tensor add_shared_rows(const RoutingPlan& plan, const Tensor& addends, const comm::ProcessGroup& etp, Stream& stream) {
  if (etp.size() == 1) return addends;
  const auto& k = kernels::kernels(addends.device()).pointwise;
  const int64_t mine = plan.rows_received(), width = addends.dim(1);
  std::vector<Tensor> parts;  // of my rows, by etp rank
  std::vector<device::Event> events;
  int64_t begin = 0;
  for (int q = 0; q < etp.size(); ++q) {
    const int64_t end = begin + plan.shared[static_cast<size_t>(q)];
    const Tensor part = addends.slice(0, begin, end);
    begin = end;
    if (q == etp.rank()) {
      parts.push_back(part);
    } else {
      parts.push_back(Tensor::empty({mine, width}, addends.dtype(), addends.device(), Category::communication));
      events.push_back(etp.send(part, q, stream));
      events.push_back(etp.receive(parts.back(), q, stream));
    }
  }
  for (const device::Event& e : events) stream.wait(e);
  const Dtype acc = accumulator_dtype(addends.dtype());
  Tensor sum = Tensor::empty({mine, width}, acc, addends.device(), Category::communication);
  k.copy(stream, sum, parts.front());
  for (size_t q = 1; q < parts.size(); ++q) k.axpy(stream, sum, 1.0, parts[q]);
  if (acc == addends.dtype()) return sum;
  Tensor rounded = Tensor::empty({mine, width}, addends.dtype(), addends.device(), Category::communication);
  k.copy(stream, rounded, sum);
  return rounded;
}

Tensor group_by_expert(const RoutingPlan& plan, const Tensor& rows, Stream& stream) {
  return reorder(rows, plan.regroup, stream);
}

Tensor group_by_source(const RoutingPlan& plan, const Tensor& rows, Stream& stream) {
  return reorder(rows, plan.ungroup, stream);
}

}  // namespace hexad::ep
