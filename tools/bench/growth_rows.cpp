#include "tools/bench/growth_rows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "framework/device/context.h"
#include "framework/io/checkpoint_store.h"
#include "framework/io/manifest_pages.h"
#include "parallel/comm/engine_group.h"
#include "parallel/comm/location.h"
#include "parallel/comm/message_plan.h"
#include "parallel/mesh/mesh.h"
#include "tools/bench/counted_heap.h"
#include "tools/bench/silent_peers.h"
#include "tools/train/process/cores.h"
#include "tools/train/report/rank_clock.h"

namespace hexad::bench {

using namespace base;
namespace {

using comm::Operation;
using comm::ProcessGroup;
using comm::Reduce;
using device::DeviceContext;
using tensor::Tensor;

constexpr int ranks_of_a_node = 8;
constexpr int parameters = 1000;
// Each tensor of the checkpoint has one row from each of 64 ranks. Each rank has one row of each of four tensors.
constexpr int ranks_of_a_tensor = 64, tensors_of_a_rank = 4;

using Clock = std::chrono::steady_clock;

// Measures activities one after the other.
class Meter {
 public:
  explicit Meter(std::shared_ptr<const MessageCounts> counts) : counts_(std::move(counts)) {}

  GrowthRow& measure(std::string activity, const std::function<void()>& act) {
    const int64_t messages = counts_->messages, bytes = counts_->bytes, heap = heap_bytes();
    restart_peak();
    const Clock::time_point start = Clock::now();
    act();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return rows_.emplace_back(GrowthRow{std::move(activity), counts_->messages - messages, counts_->bytes - bytes,
                                        heap_peak() - heap, seconds});
  }
  std::vector<GrowthRow> take() { return std::move(rows_); }

 private:
  const std::shared_ptr<const MessageCounts> counts_;
  std::vector<GrowthRow> rows_;
};

std::vector<comm::Location> locations_of(int world) {
  std::vector<comm::Location> locations(world);
  for (int r = 0; r < world; ++r) {
    comm::Location& location = locations[r];
    location.set(cat("node", r / ranks_of_a_node));
    location.leader = r / ranks_of_a_node * ranks_of_a_node;
  }
  return locations;
}

// Returns one placement for each kind of placement that a model's parameters have.
std::vector<Placement> placements_of(const mesh::Sizes& sizes) {
  return {{.view = MeshView::dense},
          {.view = MeshView::dense, .shards = {{Axis::tp, 0, sizes.tp, 0}}},
          {.view = MeshView::dense, .partial = {Axis::tp}},
          {.view = MeshView::expert, .shards = {{Axis::ep, 0, sizes.ep, 0}}}};
}

// Performs the control collectives of a training step: all-reduces of tokens, losses, the gradients' norm, preemption
// and peak memory, the report of the ranks' times and traffic, and a barrier.
void control_a_step(const ProcessGroup& world, train::RankClock& clock, DeviceContext& host) {
  for (int i = 0; i < 4; ++i) world.all_reduce_value(1, Reduce::sum, host);
  world.any(false, host);
  world.all_reduce_value(1, Reduce::max, host);
  telemetry::StepMetrics metrics;
  clock.begin();
  clock.end();
  clock.report(metrics, host);
  device::InlineStream stream;
  world.barrier(stream).wait();
}

// Measures the plan of an operation of all ranks, with the default limit of bytes per round. The plan is not executed.
void measure_plan(const std::string& activity, const Operation& operation, int world, Meter& meter) {
  comm::MessagePlan plan;
  GrowthRow& row =
      meter.measure(activity, [&] { plan = comm::make_message_plan(operation, 0, world, comm::Limits{}.round_bytes); });
  for (const comm::Round& round : plan.rounds) {
    row.messages += std::ssize(round.sends) + std::ssize(round.receives);
    row.message_bytes += round.volume().sent + round.volume().received;
  }
}

std::string name_of_tensor(int rank, int index) {
  return fmt::format("tensor.{:06}", rank / ranks_of_a_tensor * tensors_of_a_rank + index);
}

// Returns the description of the shard that a rank has written.
std::string part_of(int rank, int world) {
  const std::string digest(32, '0');
  io::ShardPart part{rank, world, {fmt::format("shard-{:05}-of-{:05}.safetensors", rank, world), 1, digest}, {}};
  const int64_t row = rank % ranks_of_a_tensor;
  for (int i = 0; i < tensors_of_a_rank; ++i) {
    io::Piece piece{
        static_cast<size_t>(rank), fmt::format("{}[{}]", name_of_tensor(rank, i), row), {{row, 0}, {1, 8}}, digest};
    part.tensors.push_back(
        {name_of_tensor(rank, i), io::Kind::main, Dtype::f32, {ranks_of_a_tensor, 8}, {std::move(piece)}});
  }
  return io::part_to_json(part);
}

// A new temporary folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "hexad-growth-XXXXXX").string()) {
    if (!::mkdtemp(path_.data()))
      fail(ExitCode::resource, path_, ": cannot be created: ", std::strerror(errno),
           "; set TMPDIR to a writable folder");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

mesh::Sizes growth_layout(int world) {
  require(world >= 64 && std::has_single_bit(static_cast<unsigned>(world)), "[growth] the world has ", world,
          " ranks; expected a power of two of at least 64");
  const int pp = std::clamp(world / 128, 1, 8);
  return {.pp = pp, .tp = 8, .ep = std::min(64, world / pp), .etp = 1};
}

std::vector<GrowthRow> growth_rows(int world) {
  const auto counts = std::make_shared<MessageCounts>();
  Meter meter(counts);
  DeviceContext host;
  const std::vector<comm::Location> locations = locations_of(world);
  comm::Topology topology;
  meter.measure("nodes", [&] { topology = comm::topology_of(locations, 0); });
  comm::CommEngine engine([&] { return std::make_unique<SilentPeers>(topology, counts); }, {});
  const mesh::Sizes sizes = growth_layout(world);
  std::unique_ptr<comm::EngineGroup> group;
  std::unique_ptr<mesh::Mesh> mesh;
  meter.measure("mesh and groups", [&] {
    group = std::make_unique<comm::EngineGroup>(engine, comm::TrafficClass::control, "world");
    mesh = std::make_unique<mesh::Mesh>(*group, sizes);
  });
  meter.measure("cores of a node", [&] { train::find_cores(*group); });
  meter.measure("groups of parameters", [&] {
    const std::vector<Placement> placements = placements_of(sizes);
    for (int i = 0; i < parameters; ++i) mesh->reducers(placements[i % placements.size()]);
    mesh->unfit_ep_group();
  });
  std::optional<train::RankClock> clock;
  meter.measure("control of a step", [&] {
    clock.emplace(*group, topology, *mesh);
    control_a_step(*group, *clock, host);
  });
  // Measures the remaining steps of a window, including the search for slow ranks at the end of the window.
  meter.measure("control of a window", [&] {
    for (int step = 1; step < telemetry::SlowRanks::window; ++step) control_a_step(*group, *clock, host);
  });
  meter.measure("comparison of replicas", [&] {
    const std::vector<int64_t> digests(parameters, 7);
    mesh->reducers({}).same_on_all(digests, host);
    (*mesh)[Axis::tp].all_gather_values(digests, host);
    group->any(false, host);
  });
  const Tensor gradient = Tensor::zeros({1 << 20}, Dtype::f32, host),
               rows = Tensor::zeros({world, 64}, Dtype::f32, host), received = Tensor::like(rows);
  const std::vector<int64_t> one_row(world, 1);
  measure_plan("sum over all ranks", {.kind = Operation::Kind::all_reduce, .out = gradient}, world, meter);
  measure_plan("all-to-all of all ranks",
               {.kind = Operation::Kind::all_to_all, .out = received, .in = rows, .splits = {one_row, one_row}}, world,
               meter);
  return meter.take();
}

std::vector<GrowthRow> checkpoint_growth_rows(int world) {
  Meter meter(std::make_shared<MessageCounts>());
  std::vector<std::string> parts;
  for (int r = 0; r < world; ++r) parts.push_back(part_of(r, world));
  io::Manifest manifest;
  meter.measure("merging of a manifest", [&] { manifest = io::merge_parts({}, parts); });
  const TemporaryFolder folder;
  meter.measure("files of a manifest", [&] {
    for (const io::ManifestFile& file : io::manifest_files(std::move(manifest), io::StoreOptions{}.page_pieces))
      std::ofstream(folder.path() + "/" + file.name) << file.text;
  });
  const std::string text = io::Checkpoint::read_manifest(folder.path());
  GrowthRow& row = meter.measure("opening of a checkpoint", [&] {
    const io::Checkpoint checkpoint = io::Checkpoint::open_read(folder.path(), text);
    for (int i = 0; i < tensors_of_a_rank; ++i) checkpoint.record(name_of_tensor(0, i), io::Kind::main);
  });
  row.message_bytes = static_cast<int64_t>(text.size());
  return meter.take();
}

}  // namespace hexad::bench
