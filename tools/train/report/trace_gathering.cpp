#include "tools/train/report/trace_gathering.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/base/clock.h"
#include "parallel/comm/text_collectives.h"

namespace hexad::train {

using namespace base;
using namespace tensor;

namespace {

using Json = nlohmann::json;
using telemetry::TraceCounter;
using telemetry::TraceEvent;
using telemetry::TraceRecords;

std::vector<uint8_t> packed(const TraceRecords& records) {
  Json events = Json::array(), counters = Json::array();
  for (const TraceEvent& e : records.events) {
    Json args = Json::object();
    for (const auto& [key, value] : e.args) std::visit([&](const auto& v) { args[key] = v; }, value);
    events.push_back({e.name, e.lane, e.start_us, e.duration_us, std::move(args)});
  }
  for (const TraceCounter& c : records.counters) counters.push_back({c.name, c.time_us, c.values});
  return Json::to_cbor({{"events", std::move(events)}, {"counters", std::move(counters)}});
}

TraceEvent event_of(const Json& from, int rank) {
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
  return e;
}

void unpack(const std::vector<uint8_t>& bytes, int rank, TraceRecords& to) {
  const Json json = Json::from_cbor(bytes);
  for (const Json& from : json.at("events")) to.events.push_back(event_of(from, rank));
  for (const Json& from : json.at("counters"))
    to.counters.push_back({.name = from.at(0).get<std::string>(),
                           .rank = rank,
                           .time_us = from.at(1).get<double>(),
                           .values = from.at(2).get<std::map<std::string, int64_t>>()});
}

}  // namespace

void gather_trace_records(const TraceRecords& mine, const comm::ProcessGroup& world, Device device, TraceRecords& all) {
  comm::gather_bytes(packed(mine), world, device,
                     [&](int rank, const std::vector<uint8_t>& bytes) { unpack(bytes, rank, all); });
}

double clock_offset(const comm::ProcessGroup& world, Device device) {
  const std::vector<int>& nodes = world.node_of_rank();
  if (!world.crosses_nodes()) return 0;
  // All ranks of a node use the offset of the node's first rank, because the ranks of a node share a clock.
  const size_t first = std::find(nodes.begin(), nodes.end(), nodes[world.rank()]) - nodes.begin();
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

}  // namespace hexad::train
