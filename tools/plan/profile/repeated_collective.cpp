#include "tools/plan/profile/repeated_collective.h"

namespace hexad::plan {

using comm::Splits;
using device::Event;

int64_t bytes_of_exchange(int64_t bytes, int ranks) {
  const int64_t of_tensor = 2 * bytes + 4 * ranks;  // with two ranks, a tensor has twice the sent bytes
  return 2 * (of_tensor + 4 * Operands::alignment);
}

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
  // Returns two tensors of a block, each with a multiple of Operands::alignment elements before it.
  const auto pair = [operands](int64_t out, int64_t in) {
    const int64_t begin = (out + Operands::alignment - 1) / Operands::alignment * Operands::alignment;
    const tensor::Tensor block = operands->next(begin + in);
    return std::pair(block.slice(0, 0, out), block.slice(0, begin, begin + in));
  };
  switch (operation) {
    case Collective::all_to_all: {
      const std::vector<int64_t> rows(n, piece);
      return {wire_bytes, [=, splits = Splits{rows, rows}] {
                const auto [out, in] = pair(n * piece, n * piece);
                return g->all_to_all(out, in, splits, *stream);
              }};
    }
    case Collective::all_gather:
      return {wire_bytes, [=] {
                const auto [out, in] = pair(n * piece, piece);
                return g->all_gather(out, in, *stream);
              }};
    case Collective::reduce_scatter:
      return {wire_bytes, [=] {
                const auto [out, in] = pair(piece, n * piece);
                return g->reduce_scatter(out, in, *stream);
              }};
    case Collective::all_reduce:
      return {wire_bytes, [=] {
                return g->all_reduce(operands->next(n * piece).slice(0, 0, n * piece), comm::Reduce::sum, *stream);
              }};
    case Collective::send:
      return {wire_bytes, [=] {
                const auto [out, in] = pair(piece, piece);
                const int rank = g->rank(), size = g->size();
                g->send(out, (rank + 1) % size, *stream);
                return g->receive(in, (rank + size - 1) % size, *stream);
              }};
  }
  base::fail_invariant(
      base::cat("[profile] the collective is ", static_cast<int>(operation), "; expected a Collective"));
}

Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes, device::Device device) {
  return make_exchange(operation, group, bytes,
                       std::make_shared<Operands>(bytes_of_exchange(bytes, group.size()), device), device);
}

}  // namespace hexad::plan
