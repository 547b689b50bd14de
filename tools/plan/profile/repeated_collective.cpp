#include "tools/plan/profile/repeated_collective.h"

namespace hexad::plan {

using comm::Splits;
using device::Event;

Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes,
                       const std::shared_ptr<Operands>& operands, device::Device device) {
  const comm::ProcessGroup* g = &group;
  const int64_t n = group.size(), others = n - 1;
  device::Stream* stream = &device.context().compute();
  // Number of pieces that a rank sends in one operation.
  const int64_t sent_pieces = operation == Collective::send         ? 1
                              : operation == Collective::all_reduce ? 2 * others
                                                                    : others;
  const int64_t piece = (bytes + 4 * sent_pieces - 1) / (4 * sent_pieces);
  const int64_t wire_bytes = 4 * piece * sent_pieces;
  switch (operation) {
    case Collective::all_to_all: {
      const std::vector<int64_t> rows(n, piece);
      return {wire_bytes, [=, splits = Splits{rows, rows}] {
                return g->all_to_all(operands->next(n * piece), operands->next(n * piece), splits, *stream);
              }};
    }
    case Collective::all_gather:
      return {wire_bytes, [=] { return g->all_gather(operands->next(n * piece), operands->next(piece), *stream); }};
    case Collective::reduce_scatter:
      return {wire_bytes, [=] { return g->reduce_scatter(operands->next(piece), operands->next(n * piece), *stream); }};
    case Collective::all_reduce:
      return {wire_bytes, [=] { return g->all_reduce(operands->next(n * piece), comm::Reduce::sum, *stream); }};
    case Collective::send:
      return {wire_bytes, [=] {
                const int rank = g->rank(), size = g->size();
                g->send(operands->next(piece), (rank + 1) % size, *stream);
                return g->receive(operands->next(piece), (rank + size - 1) % size, *stream);
              }};
  }
  base::fail_invariant(
      base::cat("[profile] the collective is ", static_cast<int>(operation), "; expected a Collective"));
}

Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes, device::Device device) {
  const int64_t largest = 2 * (bytes + 4 * group.size());  // bytes of a tensor
  return make_exchange(operation, group, bytes, std::make_shared<Operands>(2 * largest, device), device);
}

}  // namespace hexad::plan
