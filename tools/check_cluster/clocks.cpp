#include "tools/check_cluster/measurements.h"

#include <chrono>

#include "parallel/comm/node_groups.h"

namespace hexad::check_cluster {
namespace {

using base::Dtype;
using tensor::Tensor;

constexpr int questions = 10;

int64_t nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Sends rank 0's time to `rank` after each request of `rank`.
void answer(const comm::ProcessGroup& world, int rank, const Tensor& note, device::Stream& stream) {
  for (int i = 0; i < questions; ++i) {
    world.receive(note, rank, stream).wait();
    *note.data<int64_t>() = nanoseconds();
    world.send(note, rank, stream).wait();
  }
}

// Requests rank 0's time several times. The request with the shortest round trip counts, because its answer is the most
// precise.
void ask(RankReport& report, const comm::ProcessGroup& world, const Tensor& note, device::Stream& stream) {
  int64_t shortest = INT64_MAX;
  for (int i = 0; i < questions; ++i) {
    const int64_t asked = nanoseconds();
    world.send(note, 0, stream).wait();
    world.receive(note, 0, stream).wait();
    const int64_t answered = nanoseconds();
    if (answered - asked >= shortest) continue;
    shortest = answered - asked;
    const int64_t middle = asked + shortest / 2;
    report.clock_offset = 1e-9 * static_cast<double>(middle - *note.data<int64_t>());
    report.clock_error = 1e-9 * static_cast<double>(shortest) / 2;
  }
}

}  // namespace

void measure_clocks(RankReport& report, const comm::ProcessGroup& world, device::Device device) {
  const comm::NodeGrid grid(world.node_of_rank());
  const Tensor note = Tensor::zeros({1}, Dtype::i64, device, device::Category::communication);
  device::Stream& stream = device.context().compute();
  const int step = (grid.nodes() + max_clocks - 1) / max_clocks;
  for (int node = 0; node < grid.nodes(); node += step) {
    const int rank = grid.rank(node, 0);
    if (rank == world.rank() && rank == 0) report.clock_offset = 0;
    if (rank == 0) continue;
    if (world.rank() == 0) answer(world, rank, note, stream);
    if (world.rank() == rank) ask(report, world, note, stream);
  }
}

}  // namespace hexad::check_cluster
