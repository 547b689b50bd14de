#include "parallel/ep/node_steps.h"

#include <algorithm>

#include "framework/kernels/kernel_table.h"
#include "parallel/ep/offsets.h"

namespace hexad::ep {

using device::Category;

namespace {

// Calls f(from, to, rows) for each block that has rows. `from` and `to` are the indices of the block's first row before
// and after reordering. `rows` is the number of the block's rows.
template <class F>
void for_each_block(const BlockOrder& b, const F& f) {
  const std::vector<int64_t> lying = offsets_of(b.rows);
  int64_t going = 0;
  for (const int block : b.order) {
    const int64_t rows = b.rows[block];
    if (rows > 0) f(lying[block], going, rows);
    going += rows;
  }
}

}  // namespace

Tensor BlockOrder::apply(const Tensor& lying, device::Stream& stream) const {
  if (order.empty()) return lying;
  const Tensor out = Tensor::like(lying, Category::communication);
  for_each_block(*this, [&](int64_t from, int64_t to, int64_t count) {
    kernels::kernels(out.device())
        .pointwise.copy(stream, out.slice(0, to, to + count), lying.slice(0, from, from + count));
  });
  return out;
}

Tensor BlockOrder::undo(const Tensor& ordered, device::Stream& stream) const {
  if (order.empty()) return ordered;
  const Tensor out = Tensor::like(ordered, Category::communication);
  for_each_block(*this, [&](int64_t to, int64_t from, int64_t count) {
    kernels::kernels(out.device())
        .pointwise.copy(stream, out.slice(0, to, to + count), ordered.slice(0, from, from + count));
  });
  return out;
}

NodeSteps node_steps(const comm::NodeGrid& grid, int rank, const RowsBetween& rows) {
  const int nodes = grid.nodes(), places = grid.places(), my_node = grid.node(rank), my_place = grid.place(rank);
  NodeSteps steps;
  for (int place = 0; place < places; ++place) {
    int64_t send = 0, receive = 0;
    for (int node = 0; node < nodes; ++node) {
      const int64_t passing = rows(grid.rank(my_node, place), grid.rank(node, my_place));
      send += rows(rank, grid.rank(node, place)), receive += passing;
      steps.between.rows.push_back(passing);
    }
    steps.inside.send.push_back(send), steps.inside.receive.push_back(receive);
  }
  std::vector<int> arrived;  // source ranks, in the order in which their rows arrive
  for (int node = 0; node < nodes; ++node) {
    int64_t send = 0, receive = 0;
    for (int place = 0; place < places; ++place) {
      steps.between.order.push_back(place * nodes + node);
      send += steps.between.rows[place * nodes + node];
      arrived.push_back(grid.rank(node, place));
      steps.arrival.rows.push_back(rows(arrived.back(), rank));
      receive += steps.arrival.rows.back();
    }
    steps.across.send.push_back(send), steps.across.receive.push_back(receive);
  }
  if (std::is_sorted(arrived.begin(), arrived.end())) return steps;
  steps.arrival.order.resize(arrived.size());
  for (size_t i = 0; i < arrived.size(); ++i) steps.arrival.order[arrived[i]] = static_cast<int>(i);
  return steps;
}

std::vector<int> destinations_by_place(const comm::NodeGrid& grid) {
  std::vector<int> ranks;
  for (int place = 0; place < grid.places(); ++place)
    for (int node = 0; node < grid.nodes(); ++node) ranks.push_back(grid.rank(node, place));
  return ranks;
}

}  // namespace hexad::ep
