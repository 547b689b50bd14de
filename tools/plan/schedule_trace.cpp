#include "tools/plan/schedule_trace.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/telemetry/timeline_svg.h"
#include "framework/telemetry/trace_timeline.h"
#include "parallel/comm/node_groups.h"
#include "parallel/comm/text_collectives.h"
#include "tools/plan/cluster.h"
#include "tools/train/report/trace_gathering.h"

namespace hexad::plan {

using namespace base;
using namespace tensor;

using namespace train;

namespace {

using schedule::Timeline;
using telemetry::TraceEvent;
using Json = nlohmann::json;

// Calls f(ranks) for the groups group_of(rank) of all ranks. Begins with the group of this rank, because Rates::find()
// returns the first of several links that differ only in their number of nodes.
template <class GroupOf, class F>
void for_own_and_all_groups(const mesh::Mesh& mesh, const GroupOf& group_of, const F& f) {
  f(group_of(mesh.world().rank()));
  mesh::for_each_group(mesh.world().size(), group_of, f);
}

void add_once(std::vector<plan::GroupShape>& shapes, const plan::GroupShape& shape) {
  if (std::ranges::find(shapes, shape) == shapes.end()) shapes.push_back(shape);
}

// Adds the shapes of all ranks' groups group_of(rank), each once.
template <class GroupOf>
void add_shapes(std::vector<plan::GroupShape>& shapes, const std::string& name, const mesh::Mesh& mesh,
                const GroupOf& group_of) {
  for_own_and_all_groups(mesh, group_of, [&](const std::vector<int>& ranks) {
    const std::vector<int> nodes = comm::nodes_of(ranks, mesh.world().node_of_rank());
    add_once(shapes, {name, std::ssize(ranks), std::ssize(std::set<int>(nodes.begin(), nodes.end()))});
  });
}

// Adds the shapes of the two levels (comm::NodeGroups) of all ranks' groups group_of(rank), each once. Groups without
// two levels have no such shapes.
template <class GroupOf>
void add_levels(std::vector<plan::GroupShape>& shapes, const std::string& name, const mesh::Mesh& mesh,
                const GroupOf& group_of) {
  for_own_and_all_groups(mesh, group_of, [&](const std::vector<int>& ranks) {
    const comm::NodeGrid grid(comm::nodes_of(ranks, mesh.world().node_of_rank()));
    if (!grid.two_levels()) return;
    add_once(shapes, {name + "_inside", grid.places(), 1});
    add_once(shapes, {name + "_across", grid.nodes(), grid.nodes()});
  });
}

// Returns the shapes of all groups that the tasks of an MoE layer use.
std::vector<plan::GroupShape> shapes_of(const mesh::Mesh& mesh, ep::AllToAll all_to_all) {
  std::vector<plan::GroupShape> shapes;
  const mesh::Layout& layout = mesh.layout();
  const auto along = [&](Axis axis) { return [&layout, axis](int rank) { return layout.members(axis, rank); }; };
  const auto experts = [&](int rank) { return layout.expert_sharers(rank); };
  for (const auto& [axis, name] : {std::pair{Axis::ep, "ep"}, {Axis::etp, "etp"}, {Axis::tp, "tp"}})
    add_shapes(shapes, name, mesh, along(axis));
  add_shapes(shapes, "experts", mesh, experts);
  if (all_to_all != ep::AllToAll::hierarchical) return shapes;
  add_levels(shapes, "ep", mesh, along(Axis::ep));
  add_levels(shapes, "experts", mesh, experts);
  return shapes;
}

// Returns the shapes of groups over which layers communicate only outside of their tasks.
std::vector<plan::GroupShape> shapes_outside(const mesh::Mesh& mesh) {
  std::vector<plan::GroupShape> shapes;
  add_shapes(shapes, mesh.tokens().name(), mesh, [&](int rank) { return mesh.layout().token_sharers(rank); });
  return shapes;
}

/// Totals of all passes of a kind on one rank.
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

/// Trace of one rank, as rank 0 receives it.
struct RankTrace {
  telemetry::TraceRecords records{};
  std::map<schedule::PassKind, Sum> kinds{};
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

// Returns the predicted timelines of this rank's passes. The passes are simulated together with the passes of all ranks
// of Predictor::meeting.
std::vector<Timeline> predictions_of(const std::vector<PassRecorder::Recording>& passes, const Predictor& predictor,
                                     Device device) {
  const comm::ProcessGroup& group = *predictor.meeting.group;
  const size_t rank = group.rank();
  const auto most =
      static_cast<size_t>(group.all_reduce_value(static_cast<double>(passes.size()), comm::Reduce::max, device));
  // Sorts by name, because the passes of two micro-batches in flight may end in a different order on each rank.
  std::vector<size_t> order(passes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return passes[a].name < passes[b].name; });
  std::vector<Timeline> out(passes.size());
  for (size_t k = 0; k < most; ++k) {  // a stage with fewer passes contributes empty graphs
    const bool own = k < passes.size();
    const schedule::TaskGraph none, &mine = own ? passes[order[k]].graph : none;
    const std::vector<schedule::TaskGraph> all = graphs_of_all(mine, group, device);
    std::vector<const schedule::TaskGraph*> graphs;
    for (const auto& g : all) graphs.push_back(&g);
    graphs[rank] = &mine;  // the original graph, whose tasks have names
    if (own)
      out[order[k]] =
          simulate(graphs, predictor.rates, predictor.meeting_groups, schedule::drive_of(device.context()))[rank];
  }
  return out;
}

// Returns the passes by start time. The passes of two interleaved micro-batches overlap, so the order of the starts may
// differ from the order of `passes`.
std::vector<const PassRecorder::Recording*> in_order(const std::vector<PassRecorder::Recording>& passes) {
  std::vector<const PassRecorder::Recording*> all;
  for (const PassRecorder::Recording& pass : passes) all.push_back(&pass);
  std::ranges::stable_sort(all, {}, [](const auto* pass) { return pass->begin(); });
  return all;
}

// Adds the computation of other passes that runs during this pass, because this computation also hides communication.
Timeline with_others(Timeline measured, const PassRecorder::Recording& pass,
                     const std::vector<PassRecorder::Recording>& all) {
  const double zero = pass.begin(), end = measured.total();
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

/// Set of trace rows for passes that do not overlap, and the end times of its latest passes. The passes of the second
/// of two overlapping micro-batches go to a second set. The row names of a set end in its `mark`.
struct Rows {
  std::string_view mark;
  double measured_end = -std::numeric_limits<double>::infinity(), predicted_end = measured_end;
};

// Builds the trace of this rank. `zero` is the start of the trace on this rank's clock.
RankTrace trace_of(const std::vector<PassRecorder::Recording>& passes, const std::vector<Timeline>& predictions,
                   const Predictor& predictor, double zero, int rank) {
  RankTrace trace;
  Rows usual{""}, other{" (other micro-batch)"};
  for (const PassRecorder::Recording* const at : in_order(passes)) {
    const PassRecorder::Recording& pass = *at;
    const Timeline measured = schedule::measured(pass.graph, pass.times);
    Timeline predicted = predictions[at - passes.data()];
    trace.kinds[pass.name.kind].add(sum_of(measured, with_others(measured, pass, passes), predicted));
    for (const std::string& link : unmeasured_links(pass.graph, predictor.rates)) trace.assumed_links.insert(link);
    // A predicted pass begins when the measured pass begins. Passes in one row must not overlap, so the predicted pass
    // begins later if the previous prediction in its row ends later.
    const double begin = pass.begin() - zero;
    Rows& rows = begin < usual.measured_end ? other : usual;
    const double delay = std::max(0.0, rows.predicted_end - begin);
    for (Timeline::Span& span : predicted.spans) span.begin += delay, span.end += delay;
    rows.measured_end = begin + measured.total(), rows.predicted_end = begin + predicted.total();
    for (TraceEvent& e : telemetry::trace_events({&measured, &predicted}, rank, 1e6 * begin)) {
      e.lane += rows.mark;
      e.args["pass"] = pass.name.text();
      trace.records.events.push_back(std::move(e));
    }
  }
  return trace;
}

std::vector<std::string> pictures_of(const std::vector<PassRecorder::Recording>& passes,
                                     const std::vector<Timeline>& predictions) {
  std::vector<std::string> pictures;
  if (passes.empty()) return pictures;
  for (const schedule::PassKind kind : {schedule::PassKind::forward, schedule::PassKind::backward}) {
    const schedule::PassName name{passes.front().name.layer, kind};
    const auto pass = std::find_if(passes.begin(), passes.end(), [&](const auto& p) { return p.name == name; });
    if (pass == passes.end()) continue;
    const Timeline measured = schedule::measured(pass->graph, pass->times);
    const Timeline& predicted = predictions[pass - passes.begin()];
    pictures.push_back(telemetry::timeline_svg(name.text() + ", rank 0", {&measured, &predicted}));
  }
  return pictures;
}

// Returns Predictor::assumed_rates for the rates that rates_of(cluster, query) returns.
std::vector<std::string> texts_of_assumed_rates(const Recipe& recipe, const plan::Cluster& cluster,
                                                const plan::RatesQuery& query) {
  const std::string& profile = recipe.schedule.profile;
  std::vector<std::string> texts;
  if (recipe.train.precision == Precision::f64)
    texts.push_back(
        fmt::format("train.precision is f64, but {} has only products of f32 and bf16; predictions assume that "
                    "products of f64 take as long as those of f32",
                    profile));
  std::vector<std::string_view> passes;
  for (const base::GemmPass pass : unmeasured_passes(cluster, query)) passes.push_back(enum_name(pass));
  if (!passes.empty())
    texts.push_back(
        fmt::format("{} lacks products of some passes, which are predicted like those of the first measured pass: {}",
                    profile, fmt::join(passes, ", ")));
  if (cluster.slowdowns.empty() && cluster.capped_slowdowns.empty())
    texts.push_back(fmt::format(
        "{} has no slowdowns; predictions assume that concurrent work does not slow other work down", profile));
  return texts;
}

}  // namespace

Predictor::Predictor(const Recipe& recipe, const mesh::Mesh& mesh)
    : rates(schedule::Rates::defaults()),
      groups(rank_groups(mesh.layout(), mesh.world().node_of_rank())),
      meeting(meeting_of(mesh)),
      meeting_groups(groups_among(meeting.ranks, groups)) {
  rates.speed_of_threads = speeds_of_threads(recipe.train.threads.value_or(1), {});
  if (recipe.schedule.profile.empty()) return;
  const auto plain = rates.other_links;
  const plan::Cluster cluster = plan::load_cluster(recipe.schedule.profile);
  const plan::RatesQuery query{
      .groups = shapes_of(mesh, recipe.schedule.moe.all_to_all),
      .further_groups = shapes_outside(mesh),
      .element = recipe.train.precision == Precision::bf16 ? plan::Element::bf16 : plan::Element::f32,
      .inputs = recipe.model.hidden,
      .outputs = recipe.model.moe.expert_hidden / mesh[Axis::etp].size(),
      .ranks_per_node = max_ranks_of_node(mesh.world().node_of_rank())};
  rates = plan::rates_of(cluster, query);
  rates.other_links = plain;
  assumed_rates = texts_of_assumed_rates(recipe, cluster, query);
}

std::string text_of_assumed(const std::string& profile, const std::vector<std::string>& links) {
  return fmt::format(
      "{} has no measurements of these links: {}. They are predicted like links of a default machine. To measure them, "
      "run `hexad profile` on the ranks of this run",
      profile, fmt::join(links, "; "));
}

std::string ScheduleTrace::line(const Kind& kind) {
  const telemetry::ScheduleMetrics& s = kind.seconds;
  std::string out =
      fmt::format("{}: predicted {:.2f} ms, measured {:.2f} ms ({:+.1f}%), exposed communication {:.2f} ms",
                  name_of(kind.kind), 1e3 * s.predicted_seconds, 1e3 * s.measured_seconds,
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
      passes.empty() ? std::numeric_limits<double>::infinity() : in_order(passes).front()->begin() - ahead;
  const double zero = world.all_reduce_value(first, comm::Reduce::min, device) + ahead;
  const std::vector<Timeline> predictions = predictions_of(passes, predictor, device);
  const RankTrace mine = trace_of(passes, predictions, predictor, zero, world.rank());
  ScheduleTrace out;
  out.begin = zero;
  telemetry::TraceRecords records;
  gather_trace_records(mine.records, world, device, records);
  out.events = std::move(records.events);
  std::map<schedule::PassKind, Sum> kinds;
  std::set<std::string> assumed;
  double with_layers = 0;  // number of ranks with MoE layers; ranks of purely dense stages have none
  gather_bytes(Json::to_cbor({{"kinds", mine.kinds}, {"assumed", mine.assumed_links}}), world, device,
               [&](int, const std::vector<uint8_t>& bytes) {
                 const Json json = Json::from_cbor(bytes);
                 with_layers += json.at("kinds").empty() ? 0 : 1;
                 for (const auto& [kind, sum] : json.at("kinds").get<decltype(kinds)>()) kinds[kind].add(sum);
                 assumed.merge(json.at("assumed").get<std::set<std::string>>());
               });
  if (world.rank() != 0) return {};

  out.pictures = pictures_of(passes, predictions);
  for (const auto& [kind, sum] : kinds) {
    const telemetry::ScheduleMetrics& of_rank =
        out.kinds.emplace_back(ScheduleTrace::Kind{kind, sum.passes, sum.over(with_layers), sum.exposed / with_layers})
            .seconds;
    out.total.predicted_seconds += of_rank.predicted_seconds, out.total.measured_seconds += of_rank.measured_seconds;
    for (const auto& [collective, seconds] : of_rank.exposed_seconds) out.total.exposed_seconds[collective] += seconds;
  }
  out.assumed_links.assign(assumed.begin(), assumed.end());
  return out;
}

}  // namespace hexad::plan
