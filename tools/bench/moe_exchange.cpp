// Measures dispatch and combine of an MoE layer whose tokens are equal on all tensor-parallel ranks, by schedule and
// volume. tools/bench/papers/monta.sh makes its tables from the output. Experts do not compute.
//
//   mpirun -np 16 moe_exchange [--ranks 8] [--bytes 65536,...] [--rounds 5] [--chunks 2,4,8] [--profile cluster.yaml]
//
// --ranks: t, the number of tensor-parallel ranks per node, all of which hold the same tokens. The world has e such
// nodes. --bytes: I, the bytes of all rows that one rank sends in the baseline; (e - 1)/e of them go to other nodes.
//
// Parts:
// - dispatch: the node's ranks share the width of each expert (MoNTA, Table 1, case 2), and every rank needs all rows
// - combine: experts are whole (case 1), and every tensor-parallel rank needs all results
//
// Schedules, all of which run in every round:
// - baseline: every rank sends its whole copy
// - o1: every rank sends one t-th of its copy, then the node's ranks gather the parts
// - o2xN: N chunks; the all-to-all of a chunk overlaps the gathering and copying of the previous chunk
// - o3xN: N chunks; the all-to-all, the gathering and the copying overlap, each of a different chunk
//
// Prints one line per measurement, with fields separated by tabs: round, part, t, bytes, schedule, seconds of the
// slowest rank, predicted seconds of one rank (from the profile; "-" without a profile).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "framework/kernels/cpu/parallel.h"
#include "framework/schedule/executor.h"
#include "framework/schedule/simulator.h"
#include "framework/telemetry/timeline_svg.h"
#include "layers/moe/pass/combine.h"
#include "parallel/comm/world.h"
#include "tools/plan/cluster.h"

namespace hexad::moe {
namespace {

constexpr int64_t width = 1024;  // elements of f32, so rows have 4 KiB

struct Options {
  int ranks = 2, rounds = 5;
  std::vector<int64_t> bytes{1 << 20};
  std::vector<int> chunks{2, 4, 8};
  std::string profile, pictures;
};

// Process groups of a rank.
struct Groups {
  // Groups: one rank of each node, this node's ranks, and this rank alone.
  std::unique_ptr<comm::ProcessGroup> nodes, node, none;

  Groups(const comm::ProcessGroup& world, int ranks)
      : nodes(world.split(world.rank() % ranks, world.rank(), comm::TrafficClass::ep, "ep")),
        node(world.split(world.rank() / ranks, world.rank(), comm::TrafficClass::tp, "tp")),
        none(world.split(world.rank(), 0, comm::TrafficClass::tp, "alone")) {}
};

struct Way {
  std::string name;
  Overlap overlap = Overlap::sequential;
  int chunks = 1;
  bool baseline = false;
};

class Bench {
 public:
  Bench(const Options& o, const comm::ProcessGroup& world)
      : options_(o), world_(world), groups_(world, o.ranks), device_({.worker_lanes = true}) {
    if (!o.profile.empty()) {
      const auto nodes = static_cast<int64_t>(groups_.nodes->size()), ranks = static_cast<int64_t>(o.ranks);
      rates_ = plan::rates_of(
          plan::load_cluster(o.profile),
          {.groups = {{"ep", nodes, nodes}, {"etp", ranks, 1}, {"tp", ranks, 1}}, .ranks_per_node = ranks});
    }
    ways_.push_back({.name = "baseline", .baseline = true});
    ways_.push_back({.name = "o1"});
    for (int n : o.chunks) {
      ways_.push_back({fmt::format("o2x{}", n), Overlap::a2a_allgather, n});
      ways_.push_back({fmt::format("o3x{}", n), Overlap::a2a_allgather_copy, n});
    }
  }

  void round(int number) {
    for (int64_t bytes : options_.bytes)
      for (const Way& way : ways_) {
        measure(number, "dispatch", bytes, way, *groups_.node, nullptr);
        measure(number, "combine", bytes, way, *groups_.none, way.baseline ? nullptr : groups_.node.get());
      }
  }

 private:
  // Measures one schedule. `collector` is the group that gathers the results. If it is null, results are not gathered.
  void measure(int number, std::string_view part, int64_t bytes, const Way& way, const comm::ProcessGroup& etp,
               const comm::ProcessGroup* collector) {
    const int64_t all = bytes / (width * 4), tokens = way.baseline ? all : all / options_.ranks;
    const int experts = groups_.nodes->size();
    const Tensor ids = Tensor::empty({tokens, 1}, Dtype::i32, device_);
    for (int64_t i = 0; i < tokens; ++i) ids.data<int32_t>()[i] = static_cast<int32_t>(i % experts);
    const ep::ExpertGroups groups{groups_.nodes.get(), &etp, etp.size() > 1 ? &world_ : groups_.nodes.get()};
    const ep::PlanOptions plan_options{
        .chunking = {ep::Chunking::By::tokens, way.chunks},
        .esp_exchange = way.baseline ? ep::EspExchange::replicated : ep::EspExchange::gather,
        .merged = way.overlap != Overlap::sequential};
    const ep::SlotOrder order =
        ep::order_slots(ids, {experts, groups.ep->size(), plan_options.chunking}, groups.ep->rank(), device_.compute());
    Routes routes{.settings = {.schedule = {},
                               .order = alternating_order(),
                               .experts = experts,
                               .groups = groups,
                               .tensor = collector,
                               .tensor_ep_ranks = {},
                               .name = "moe"},
                  .plan = ep::make_routing_plan(order, groups, plan_options, device_.compute()),
                  .end = tokens};
    routes.settings.schedule.overlap = way.overlap;
    if (collector) {
      routes.collection = RowCollection{.group = collector, .counts = {}, .rows = {}};
      for (const ep::ChunkCounts& c : routes.plan.counts.chunks)
        routes.collection->counts.emplace_back(collector->size(), c.slots());
    }
    // Sends tokens unchanged. Experts return the rows that they receive.
    const Tensor rows = Tensor::zeros({tokens, width}, Dtype::f32, device_);
    PassGraph g(routes, rows, false);
    Combine combine(g, {.collection = routes.collection ? &*routes.collection : nullptr});
    Dispatch dispatch(g, {});
    ExpertTasks echo(g, 0, {});
    g.add_steps(
        {.dispatch =
             [&](size_t c) {
               dispatch.add(c, g.room_to_dispatch(), [&, c](Stream&) { return routes.sent_rows(c, rows, {}); });
             },
         .beside = [] {},
         .compute =
             [&](size_t c) { echo.add(c, dispatch.add_arrival(c), {}, [](Stream&, Rows grouped) { return grouped; }); },
         .combine = [&](size_t c) { combine.add(c, echo.computed(c), dispatch.row_weights(c)); }});
    const schedule::TaskGraph& graph = g.graph();
    world_.barrier(device_.compute()).wait();
    std::vector<schedule::TaskTime> times;
    schedule::execute(graph, device_, &times);
    const schedule::Timeline measured = schedule::measured(graph, times);
    const double seconds = world_.all_reduce_value(of(part, measured), comm::Reduce::max, device_);
    if (world_.rank() != 0) return;
    const auto foreseen = rates_ ? std::optional(schedule::simulate(graph, *rates_)) : std::nullopt;
    if (!options_.pictures.empty()) draw(part, bytes, way, {&measured, foreseen ? &*foreseen : nullptr});
    const std::string predicted = foreseen ? fmt::format("{:.6f}", of(part, *foreseen)) : std::string("-");
    fmt::print("{}\t{}\t{}\t{}\t{}\t{:.6f}\t{}\n", number, part, options_.ranks, bytes, way.name, seconds, predicted);
    std::fflush(stdout);
  }

  // Draws the timelines. Replaces pictures of earlier rounds.
  void draw(std::string_view part, int64_t bytes, const Way& way, const telemetry::TimelinePair& timelines) const {
    const std::string path = fmt::format("{}/{}-{}.svg", options_.pictures, part, way.name);
    std::ofstream out(path);
    out << telemetry::timeline_svg(
        fmt::format("{} of {} bytes, t = {}, {}, rank 0", part, bytes, options_.ranks, way.name), timelines);
    if (!out.flush())
      base::fail(base::ExitCode::data, "cannot write ", path, "; expected a writable file in an existing folder");
  }

  // Returns the seconds of dispatch (until the experts begin) or of combine (from the end of the experts).
  static double of(std::string_view part, const schedule::Timeline& timeline) {
    const auto experts = std::find_if(timeline.spans.begin(), timeline.spans.end(),
                                      [](const auto& span) { return span.task.name.starts_with("experts"); });
    return part == "dispatch" ? experts->begin : timeline.total() - experts->end;
  }

  const Options& options_;
  const comm::ProcessGroup& world_;
  const Groups groups_;
  device::DeviceContext device_;
  std::optional<schedule::Rates> rates_;
  std::vector<Way> ways_;
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Times dispatch and combine of an MoE layer for each schedule");
  app.add_option("--ranks", o.ranks, "tensor-parallel ranks per node")->check(CLI::PositiveNumber);
  app.add_option("--bytes", o.bytes, "bytes of the rows that a rank sends in the baseline, separated by commas")
      ->delimiter(',');
  app.add_option("--rounds", o.rounds, "number of repetitions")->check(CLI::PositiveNumber);
  app.add_option("--chunks", o.chunks, "numbers of chunks of the overlapped schedules")->delimiter(',');
  app.add_option("--profile", o.profile, "cluster file of `hexad profile`, for predictions");
  app.add_option("--pictures", o.pictures,
                 "existing folder for one SVG per part and schedule, of the last value of --bytes");
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(1);
  return comm::with_world([&](comm::World& world) {
    base::require(world.size() % o.ranks == 0, "[moe_exchange] ", world.size(),
                  " ranks, expected a multiple of --ranks (", o.ranks, ")");
    Bench bench(o, world.group());
    for (int i = 1; i <= o.rounds; ++i) bench.round(i);
    return 0;
  });
}

}  // namespace
}  // namespace hexad::moe

int main(int argc, char** argv) { return hexad::moe::run(argc, argv); }
