#include "tools/plan/profile/repeated_collective.h"

namespace hexad::plan {

using base::Dtype;
using comm::Splits;
using device::Category;
using device::Event;
using tensor::Tensor;

Exchange make_exchange(Collective operation, const comm::ProcessGroup& group, int64_t bytes, device::Device device) {
  const comm::ProcessGroup* g = &group;
  const int64_t n = group.size(), others = n - 1;
  device::Stream* stream = &device.context().compute();
  const auto zeros = [&](int64_t numel) { return Tensor::zeros({numel}, Dtype::f32, device, Category::communication); };
  // Number of pieces that a rank sends in one operation.
  const int64_t sent_pieces = operation == Collective::send         ? 1
                              : operation == Collective::all_reduce ? 2 * others
                                                                    : others;
  const int64_t piece = (bytes + 4 * sent_pieces - 1) / (4 * sent_pieces);
  const int64_t wire_bytes = 4 * piece * sent_pieces;
  switch (operation) {
    case Collective::all_to_all: {
      const std::vector<int64_t> rows(n, piece);
      return {wire_bytes, [=, out = zeros(n * piece), in = zeros(n * piece), splits = Splits{rows, rows}] {
                return g->all_to_all(out, in, splits, *stream);
              }};
    }
    case Collective::all_gather:
      return {wire_bytes, [=, out = zeros(n * piece), in = zeros(piece)] { return g->all_gather(out, in, *stream); }};
    case Collective::reduce_scatter:
      return {wire_bytes,
              [=, out = zeros(piece), in = zeros(n * piece)] { return g->reduce_scatter(out, in, *stream); }};
    case Collective::all_reduce:
      return {wire_bytes, [=, x = zeros(n * piece)] { return g->all_reduce(x, comm::Reduce::sum, *stream); }};
    case Collective::send:
      return {wire_bytes, [=, out = zeros(piece), in = zeros(piece)] {
                const int rank = g->rank(), size = g->size();
                g->send(out, (rank + 1) % size, *stream);
                return g->receive(in, (rank + size - 1) % size, *stream);
              }};
  }
  base::fail_invariant(
      base::cat("[profile] the collective is ", static_cast<int>(operation), "; expected a Collective"));
}

}  // namespace hexad::plan
