#include "parallel/ep/exchange.h"

#include "parallel/ep/offsets.h"

namespace hexad::ep {

using device::Category;
using namespace base;

namespace {

// Returns `given` if it is defined; otherwise, a new tensor of `count` rows with the width and dtype of `rows`.
Tensor buffer(const Tensor& given, int64_t count, const Tensor& rows) {
  if (given.defined()) return given;
  return Tensor::empty({count, rows.dim(1)}, rows.dtype(), rows.device(), Category::communication);
}

// Returns rows that remain on this rank: `rows` itself or, if `out` is defined, a copy in `out`.
InFlight alone(const Tensor& rows, const Tensor& out, Stream& stream) {
  if (!out.defined()) return {rows, {}};
  kernels::kernels(rows.device()).pointwise.copy(stream, out, rows);
  return {out, stream.record()};
}

InFlight exchange(const Tensor& rows, const comm::Splits& splits, const comm::ProcessGroup& ranks, Stream& stream,
                  const Tensor& given) {
  if (ranks.size() == 1) return alone(rows, given, stream);
  const Tensor out = buffer(given, sum_of(splits.receive), rows);
  return {out, ranks.all_to_all(out, rows, splits, stream)};
}

// Reorders received rows. The result's `arrived` is done once the rows have been reordered.
InFlight reordered(InFlight rows, const BlockOrder& blocks, Stream& stream) {
  if (blocks.order.empty()) return rows;
  stream.wait(rows.arrived);
  return {blocks.apply(rows.data, stream), stream.record()};
}

}  // namespace

InFlight send_to_experts(const MovedRows& moved, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream) {
  return exchange(rows, moved.splits, ranks, stream, {});
}

InFlight send_to_tokens(const MovedRows& moved, const Tensor& rows, const comm::ProcessGroup& ranks, Stream& stream,
                        const Tensor& out) {
  return exchange(rows, returning(moved.splits), ranks, stream, out);
}

InFlight send_inside_node(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream) {
  return exchange(rows, moved.steps->inside, *nodes.inside, stream, {});
}

InFlight send_between_nodes(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream) {
  const Tensor leaving = moved.steps->between.apply(rows, stream);
  return reordered(exchange(leaving, moved.steps->across, *nodes.across, stream, {}), moved.steps->arrival, stream);
}

InFlight return_between_nodes(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes,
                              Stream& stream) {
  const comm::Splits& there = moved.steps->across;
  const Tensor leaving = moved.steps->arrival.undo(rows, stream);
  return exchange(leaving, returning(there), *nodes.across, stream, {});
}

InFlight return_inside_node(const MovedRows& moved, const Tensor& rows, const comm::NodeGroups& nodes, Stream& stream) {
  const comm::Splits& there = moved.steps->inside;
  const Tensor leaving = moved.steps->between.undo(rows, stream);
  return exchange(leaving, returning(there), *nodes.inside, stream, {});
}

InFlight gather_rows(const std::vector<int64_t>& counts, const Tensor& rows, const comm::ProcessGroup& group,
                     Stream& stream, const Tensor& out) {
  if (group.size() == 1) return alone(rows, out, stream);
  const Tensor all = buffer(out, sum_of(counts), rows);
  std::vector<device::Event> events;
  int64_t begin = 0;
  for (int q = 0; q < group.size(); ++q) {
    const int64_t end = begin + counts[q];
    const Tensor part = all.slice(0, begin, end);
    begin = end;
    if (q == group.rank()) {
      kernels::kernels(rows.device()).pointwise.copy(stream, part, rows);
    } else {
      events.push_back(group.send(rows, q, stream));
      events.push_back(group.receive(part, q, stream));
    }
  }
  for (const device::Event& e : events) stream.wait(e);
  return {all, stream.record()};
}

Tensor add_shared_rows(const std::vector<int64_t>& counts, const Tensor& addends, const comm::ProcessGroup& group,
                       Stream& stream) {
  if (group.size() == 1) return addends;
  const auto& k = kernels::kernels(addends.device()).pointwise;
  const int64_t mine = counts[group.rank()], width = addends.dim(1);
  std::vector<Tensor> parts;  // addends of all ranks for this rank's rows
  std::vector<device::Event> events;
  int64_t begin = 0;
  for (int q = 0; q < group.size(); ++q) {
    const int64_t end = begin + counts[q];
    const Tensor part = addends.slice(0, begin, end);
    begin = end;
    if (q == group.rank()) {
      parts.push_back(part);
    } else {
      parts.push_back(Tensor::empty({mine, width}, addends.dtype(), addends.device(), Category::communication));
      events.push_back(group.send(part, q, stream));
      events.push_back(group.receive(parts.back(), q, stream));
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

InFlight add_replicated_rows(const Tensor& addends, const comm::ProcessGroup& group, Stream& stream) {
  if (group.size() == 1) return {addends, {}};
  return {addends, group.all_reduce(addends, comm::Reduce::sum, stream)};
}

}  // namespace hexad::ep
