#include "tools/plan/schedule_trace.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/telemetry/timeline_svg.h"
#include "framework/telemetry/trace_timeline.h"
#include "tools/plan/cluster.h"
#include "tools/plan/rank_graphs.h"

namespace hexad::plan {

using namespace base;
using namespace tensor;

using namespace train;

namespace {

using schedule::Timeline;
using telemetry::TraceEvent;
using Json = nlohmann::json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

plan::GroupShape shape_of(std::string name, const comm::ProcessGroup& group) {
  const std::vector<int>& nodes = group.node_of_rank();
  return {std::move(name), group.size(), static_cast<int64_t>(std::set<int>(nodes.begin(), nodes.end()).size())};
}

// Of all groups that an MoE layer's tasks name.
std::vector<plan::GroupShape> shapes_of(const mesh::Mesh& mesh, ep::AllToAll all_to_all) {
  std::vector<plan::GroupShape> shapes{shape_of("ep", mesh[Axis::ep]), shape_of("etp", mesh[Axis::etp]),
                                       shape_of("tp", mesh[Axis::tp]), shape_of("experts", mesh.experts())};
  if (all_to_all == ep::AllToAll::direct) return shapes;
  const auto add_levels = [&](const std::string& name, const comm::NodeGroups* nodes) {
    if (!nodes) return;
    shapes.push_back(shape_of(name + "_inside", *nodes->inside));
    shapes.push_back(shape_of(name + "_across", *nodes->across));
  };
  add_levels("ep", mesh.ep_nodes());
  add_levels("experts", mesh.experts_nodes());
  return shapes;
}

/// What all passes of a kind took on one rank.
struct Sum {
  int64_t passes = 0;
  double predicted = 0, measured = 0, exposed = 0;
  std::map<std::string, double> exposed_by_collective{};

  void add(const Sum& other) {
    passes += other.passes;
    predicted += other.predicted, measured += other.measured, exposed += other.exposed;
    for (const auto& [name, seconds] : other.exposed_by_collective) exposed_by_collective[name] += seconds;
  }
  telemetry::ScheduleMetrics over(double ranks) const {
    telemetry::ScheduleMetrics m{.predicted_seconds = predicted / ranks, .measured_seconds = measured / ranks};
    for (const auto& [name, seconds] : exposed_by_collective) m.exposed_seconds[name] = seconds / ranks;
    return m;
  }
};

/// What rank 0 hears of a rank.
struct RankTrace {
  std::vector<TraceEvent> events{};
  std::map<std::string, Sum> kinds{};
  std::set<std::string> assumed_links{};
};

void to_json(Json& json, const Sum& s) {
  json = {s.passes, s.predicted, s.measured, s.exposed, s.exposed_by_collective};
}
void from_json(const Json& json, Sum& s) {
  s = {.passes = json.at(0).get<int64_t>(),
       .predicted = json.at(1).get<double>(),
       .measured = json.at(2).get<double>(),
       .exposed = json.at(3).get<double>(),
       .exposed_by_collective = json.at(4).get<std::map<std::string, double>>()};
}

std::vector<uint8_t> packed(const RankTrace& trace) {
  Json events = Json::array();
  for (const TraceEvent& e : trace.events) {
    Json args = Json::object();
    for (const auto& [key, value] : e.args) std::visit([&](const auto& v) { args[key] = v; }, value);
    events.push_back({e.name, e.lane, e.start_us, e.duration_us, std::move(args)});
  }
  return Json::to_cbor({{"events", events}, {"kinds", trace.kinds}, {"assumed", trace.assumed_links}});
}

RankTrace unpacked(const std::vector<uint8_t>& bytes, int rank) {
  const Json json = Json::from_cbor(bytes);
  RankTrace trace{.kinds = json.at("kinds").get<std::map<std::string, Sum>>(),
                  .assumed_links = json.at("assumed").get<std::set<std::string>>()};
  for (const Json& from : json.at("events")) {
    TraceEvent e{.name = from.at(0).get<std::string>(),
                 .lane = from.at(1).get<std::string>(),
                 .rank = rank,
                 .start_us = from.at(2).get<double>(),
                 .duration_us = from.at(3).get<double>()};
    for (const auto& [key, value] : from.at(4).items()) {
      if (value.is_string())
        e.args[key] = value.get<std::string>();
      else if (value.is_number_float())
        e.args[key] = value.get<double>();
      else
        e.args[key] = value.get<int64_t>();
    }
    trace.events.push_back(std::move(e));
  }
  return trace;
}

// One rank after the other: rank 0 holds the bytes of one at a time.
std::vector<RankTrace> gathered(RankTrace mine, const comm::ProcessGroup& world, Device at) {
  const Device device = at.host();
  Stream& stream = device.context().compute();
  const std::vector<uint8_t> bytes = world.rank() == 0 ? std::vector<uint8_t>{} : packed(mine);
  const auto length = static_cast<int64_t>(bytes.size());
  const std::vector<int64_t> lengths = world.all_gather_values(std::span(&length, 1), device);
  if (world.rank() != 0) {
    world.send(Tensor::from<uint8_t>(bytes, {length}, device, Category::communication), 0, stream).wait();
    return {};
  }
  std::vector<RankTrace> all{std::move(mine)};
  for (int r = 1; r < world.size(); ++r) {
    const Tensor from = Tensor::empty({lengths[static_cast<size_t>(r)]}, Dtype::u8, device, Category::communication);
    world.receive(from, r, stream).wait();
    all.push_back(unpacked(from.to_vector<uint8_t>(), r));
  }
  return all;
}

// Seconds by which this rank's clock is ahead of rank 0's. Ranks of a node use its first rank's value, so that no
// inexactness comes between them.
double clock_offset(const comm::ProcessGroup& world, Device device) {
  const std::vector<int>& nodes = world.node_of_rank();
  if (!world.crosses_nodes()) return 0;
  const auto first = static_cast<size_t>(
      std::find(nodes.begin(), nodes.end(), nodes[static_cast<size_t>(world.rank())]) - nodes.begin());
  std::vector<double> ahead;
  for (int repeat = 0; repeat < 7; ++repeat) {
    world.barrier(device.context().compute()).wait();
    const auto nanoseconds = static_cast<int64_t>(now() * 1e9);
    const std::vector<int64_t> all = world.all_gather_values(std::span(&nanoseconds, 1), device);
    ahead.push_back(static_cast<double>(all[first] - all[0]) * 1e-9);
  }
  std::nth_element(ahead.begin(), ahead.begin() + 3, ahead.end());
  return ahead[3];
}

double begin_of(const PassRecorder::Recording& pass) {
  const auto earlier = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  return std::min_element(pass.times.begin(), pass.times.end(), earlier)->begin;
}

// Of this rank's passes, beside those of all others.
std::vector<Timeline> predictions_of(const std::vector<PassRecorder::Recording>& passes, const Predictor& predictor,
                                     const comm::ProcessGroup& world, Device device) {
  const auto rank = static_cast<size_t>(world.rank());
  const auto most =
      static_cast<size_t>(world.all_reduce_value(static_cast<double>(passes.size()), comm::Reduce::max, device));
  // By name: two micro-batches in flight together may end their passes in another order on each rank.
  std::vector<size_t> order(passes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return passes[a].name < passes[b].name; });
  std::vector<Timeline> out(passes.size());
  for (size_t k = 0; k < most; ++k) {  // a stage of fewer layers takes part without tasks
    const bool own = k < passes.size();
    const schedule::TaskGraph none, &mine = own ? passes[order[k]].graph : none;
    const std::vector<schedule::TaskGraph> all = graphs_of_all(mine, world, device);
    std::vector<const schedule::TaskGraph*> graphs;
    for (const auto& g : all) graphs.push_back(&g);
    graphs[rank] = &mine;  // whose tasks have names
    if (own)
      out[order[k]] = simulate(graphs, predictor.rates, predictor.groups, schedule::drive_of(device.context()))[rank];
  }
  return out;
}

// In the order of their begins; those of two micro-batches that take turns overlap.
std::vector<const PassRecorder::Recording*> in_order(const std::vector<PassRecorder::Recording>& passes) {
  std::vector<const PassRecorder::Recording*> all;
  for (const PassRecorder::Recording& pass : passes) all.push_back(&pass);
  std::ranges::stable_sort(all, {}, [](const auto* pass) { return begin_of(*pass); });
  return all;
}

// With what other passes compute meanwhile, which hides communication, too.
Timeline with_others(Timeline measured, const PassRecorder::Recording& pass,
                     const std::vector<PassRecorder::Recording>& all) {
  const double zero = begin_of(pass), end = measured.total();
  for (const PassRecorder::Recording& other : all) {
    if (&other == &pass) continue;
    for (size_t i = 0; i < other.times.size(); ++i) {
      const schedule::TaskSpec& task = other.graph.tasks()[i].spec;
      const double from = other.times[i].begin - zero, to = other.times[i].end - zero;
      if (task.lane == device::Lane::compute && from < end && to > 0) measured.spans.push_back({task, from, to});
    }
  }
  return measured;
}

Sum sum_of(const Timeline& measured, const Timeline& beside_others, const Timeline& predicted) {
  Sum s{.passes = 1, .predicted = predicted.total(), .measured = measured.total(), .exposed = beside_others.exposed()};
  for (const Timeline::CollectiveTime& c : beside_others.collectives()) s.exposed_by_collective[c.name] += c.exposed;
  return s;
}

/// The rows of one of two micro-batches, and until when they are taken.
struct Rows {
  std::string_view mark;
  double measured_end = -std::numeric_limits<double>::infinity(), predicted_end = measured_end;
};

// `zero`: on this rank's clock, where the trace begins.
RankTrace trace_of(const std::vector<PassRecorder::Recording>& passes, const std::vector<Timeline>& predictions,
                   const Predictor& predictor, double zero, int rank) {
  RankTrace trace;
  Rows usual{""}, other{" (other micro-batch)"};
  for (const PassRecorder::Recording* const at : in_order(passes)) {
    const PassRecorder::Recording& pass = *at;
    const Timeline measured = schedule::measured(pass.graph, pass.times);
    Timeline predicted = predictions[static_cast<size_t>(at - passes.data())];
    trace.kinds[pass.name.substr(pass.name.rfind(' ') + 1)].add(
        sum_of(measured, with_others(measured, pass, passes), predicted));
    for (const std::string& link : unmeasured_links(pass.graph, predictor.rates)) trace.assumed_links.insert(link);
    // Predicted rows begin with the measured ones, or one after the other where they are longer: rows do not overlap.
    const double begin = begin_of(pass) - zero;
    Rows& rows = begin < usual.measured_end ? other : usual;
    const double delay = std::max(0.0, rows.predicted_end - begin);
    for (Timeline::Span& span : predicted.spans) span.begin += delay, span.end += delay;
    rows.measured_end = begin + measured.total(), rows.predicted_end = begin + predicted.total();
    for (TraceEvent& e : telemetry::trace_events({&measured, &predicted}, rank, 1e6 * begin)) {
      e.lane += rows.mark;
      e.args["pass"] = pass.name;
      trace.events.push_back(std::move(e));
    }
  }
  return trace;
}

std::vector<std::string> pictures_of(const std::vector<PassRecorder::Recording>& passes,
                                     const std::vector<Timeline>& predictions) {
  std::vector<std::string> pictures;
  if (passes.empty()) return pictures;
  const std::string layer = passes.front().name.substr(0, passes.front().name.rfind(' '));
  for (const char* kind : {"forward", "backward"}) {
    const std::string name = cat(layer, " ", kind);
    const auto pass = std::find_if(passes.begin(), passes.end(), [&](const auto& p) { return p.name == name; });
    if (pass == passes.end()) continue;
    const Timeline measured = schedule::measured(pass->graph, pass->times);
    const Timeline& predicted = predictions[static_cast<size_t>(pass - passes.begin())];
    pictures.push_back(telemetry::timeline_svg(name + ", rank 0", {&measured, &predicted}));
  }
  return pictures;
}

}  // namespace

PassRecorder::PassRecorder(ModelInstance& instance) : instance_(instance) { instance_.run_passes_by(this); }

PassRecorder::~PassRecorder() { instance_.run_passes_by(nullptr); }

void PassRecorder::run(const std::string& name, const schedule::TaskGraph& graph, device::DeviceContext& context) {
  std::vector<schedule::TaskTime> times;
  schedule::execute(graph, context, &times, &instance_.fibers);
  if (!times.empty()) passes_.push_back({name, schedule::without_work(graph), std::move(times)});
}

Predictor::Predictor(const Recipe& recipe, const mesh::Mesh& mesh)
    : rates(schedule::Rates::defaults()), groups(rank_groups(mesh.layout(), mesh.world().node_of_rank())) {
  if (recipe.schedule.profile.empty()) return;
  const auto plain = rates.other_links;
  rates =
      plan::rates_of(plan::load_cluster(recipe.schedule.profile),
                     {.groups = shapes_of(mesh, recipe.schedule.moe.all_to_all),
                      .element = recipe.train.precision == Precision::bf16 ? plan::Element::bf16 : plan::Element::f32,
                      .inputs = recipe.model.hidden,
                      .outputs = recipe.model.moe.expert_hidden / mesh[Axis::etp].size()});
  rates.other_links = plain;
}

std::string ScheduleTrace::line(const Kind& kind) {
  const telemetry::ScheduleMetrics& s = kind.seconds;
  std::string out =
      fmt::format("{}: predicted {:.2f} ms, measured {:.2f} ms ({:+.1f}%), exposed communication {:.2f} ms", kind.name,
                  1e3 * s.predicted_seconds, 1e3 * s.measured_seconds,
                  100 * (s.predicted_seconds / s.measured_seconds - 1), 1e3 * kind.exposed);
  const char* separator = ": ";
  for (const auto& [name, seconds] : s.exposed_seconds) {
    out += fmt::format("{}{} {:.2f} ms", separator, name, 1e3 * seconds);
    separator = ", ";
  }
  return out;
}

std::optional<ScheduleTrace> gather_trace(const std::vector<PassRecorder::Recording>& passes,
                                          const Predictor& predictor, const comm::ProcessGroup& world, Device device) {
  const double ahead = clock_offset(world, device);
  const double first =
      passes.empty() ? std::numeric_limits<double>::infinity() : begin_of(*in_order(passes).front()) - ahead;
  const double zero = world.all_reduce_value(first, comm::Reduce::min, device) + ahead;
  const std::vector<Timeline> predictions = predictions_of(passes, predictor, world, device);
  std::vector<RankTrace> ranks = gathered(trace_of(passes, predictions, predictor, zero, world.rank()), world, device);
  if (world.rank() != 0) return {};

  ScheduleTrace out;
  out.pictures = pictures_of(passes, predictions);
  std::map<std::string, Sum> kinds;
  std::set<std::string> assumed;
  double with_layers = 0;  // ranks; a stage of dense layers has none
  for (RankTrace& r : ranks) {
    with_layers += r.kinds.empty() ? 0 : 1;
    for (const auto& [name, sum] : r.kinds) kinds[name].add(sum);
    assumed.merge(r.assumed_links);
    std::move(r.events.begin(), r.events.end(), std::back_inserter(out.events));
  }
  for (auto it = kinds.rbegin(); it != kinds.rend(); ++it) {  // forward before backward
    const auto& [name, sum] = *it;
    const telemetry::ScheduleMetrics& of_rank =
        out.kinds.emplace_back(ScheduleTrace::Kind{name, sum.passes, sum.over(with_layers), sum.exposed / with_layers})
            .seconds;
    out.total.predicted_seconds += of_rank.predicted_seconds, out.total.measured_seconds += of_rank.measured_seconds;
    for (const auto& [collective, seconds] : of_rank.exposed_seconds) out.total.exposed_seconds[collective] += seconds;
  }
  out.assumed_links.assign(assumed.begin(), assumed.end());
  return out;
}

}  // namespace hexad::plan
