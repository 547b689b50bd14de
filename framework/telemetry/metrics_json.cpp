#include "framework/telemetry/metrics_json.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/path_problem.h"

namespace hexad::telemetry {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/// Six decimals: a share needs no more, and 60 layers of 256 experts fill a line.
double share(double value) { return std::round(value * 1e6) / 1e6; }

void read(const Json& json, double& out) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const double infinity = std::numeric_limits<double>::infinity();
    if (text == "NaN") return void(out = std::numeric_limits<double>::quiet_NaN());
    if (text == "Infinity") return void(out = infinity);
    if (text == "-Infinity") return void(out = -infinity);
  }
  json.get_to(out);  // throws unless it is a number
}

void read(const Json& json, int64_t& out) { json.get_to(out); }

template <class T>
void read(const Json& json, std::vector<T>& out) {
  out.resize(json.size());
  for (size_t i = 0; i < out.size(); ++i) read(json.at(i), out[i]);
}

template <class T>
void read(const Json& json, std::map<std::string, T>& out) {
  for (const auto& [key, value] : json.items()) read(value, out[key]);
}

template <class T>
void read(const Json& object, const char* key, T& out) {
  if (auto it = object.find(key); it != object.end()) read(*it, out);
}

void read_comm(const Json& object, std::map<std::string, CommMetrics>& comm) {
  std::map<std::string, int64_t> bytes;
  std::map<std::string, double> seconds, exposed;
  read(object, "comm_bytes", bytes);
  read(object, "comm_seconds", seconds);
  read(object, "comm_exposed_seconds", exposed);
  for (const auto& [name, value] : bytes) comm[name].bytes = value;
  for (const auto& [name, value] : seconds) comm[name].seconds = value;
  for (const auto& [name, value] : exposed) comm[name].exposed_seconds = value;
}

void read_schedule(const Json& object, std::optional<ScheduleMetrics>& schedule) {
  const auto it = object.find("schedule");
  if (it == object.end()) return;
  schedule.emplace();
  read(*it, "predicted_seconds", schedule->predicted_seconds);
  read(*it, "measured_seconds", schedule->measured_seconds);
  read(*it, "exposed_seconds", schedule->exposed_seconds);
}

void read(const Json& object, const char* key, Spread& spread) {
  std::vector<double> values;
  read(object, key, values);
  if (values.size() == 3) spread = {values[0], values[1], values[2]};
}

void read_ranks(const Json& object, std::optional<RankTimes>& ranks) {
  const auto it = object.find("ranks");
  if (it == object.end()) return;
  ranks.emplace();
  read(*it, "step_seconds", ranks->step_seconds);
  read(*it, "own_seconds", ranks->own_seconds);
  read(*it, "waited_seconds", ranks->waited_seconds);
  if (const auto slowest = it->find("slowest"); slowest != it->end())
    for (const Json& row : *slowest) {
      RankTimes::Rank& r = ranks->slowest.emplace_back();
      row.at("rank").get_to(r.rank);
      read(row, "own_seconds", r.own_seconds);
      read(row, "waited_seconds", r.waited_seconds);
    }
}

void read(const Json& object, StepMetrics& s) {
  object.at("step").get_to(s.step);
  read(object, "tokens", s.tokens);
  read(object, "loss", s.loss);
  read(object, "lr", s.lr);
  read(object, "grad_norm", s.grad_norm);
  read(object, "step_seconds", s.step_seconds);
  read(object, "tokens_per_second", s.tokens_per_second);
  read(object, "model_flops_per_second", s.model_flops_per_second);
  read(object, "mfu", s.mfu);
  read(object, "memory_peak_bytes", s.memory_peak_bytes);
  read(object, "aux_loss", s.aux_loss);
  read(object, "z_loss", s.z_loss);
  read(object, "router_max_load", s.router_max_load);
  read(object, "dropped_fraction", s.dropped_fraction);
  read_comm(object, s.comm);
  read(object, "host_reads", s.host_reads);
  read(object, "skipped_steps", s.skipped_steps);
  read(object, "expert_load", s.expert_load);
  read_schedule(object, s.schedule);
  read_ranks(object, s.ranks);
}

void read(const Json& object, EvalMetrics& e) {
  object.at("step").get_to(e.step);
  read(object, "eval_tokens", e.tokens);
  read(object, "eval_loss", e.loss);
  read(object, "eval_bits_per_byte", e.bits_per_byte);
}

void read(const Json& object, SaveMetrics& s) {
  object.at("step").get_to(s.step);
  read(object, "checkpoint_bytes", s.bytes);
  read(object, "checkpoint_seconds", s.seconds);
}

/// [least, median, most].
Json to_json(const Spread& s) { return {number(s.least), number(s.median), number(s.most)}; }

Json to_json(const RankTimes& times) {
  Json slowest = Json::array();
  for (const RankTimes::Rank& r : times.slowest)
    slowest.push_back(
        {{"rank", r.rank}, {"own_seconds", number(r.own_seconds)}, {"waited_seconds", number(r.waited_seconds)}});
  return {{"step_seconds", to_json(times.step_seconds)},
          {"own_seconds", to_json(times.own_seconds)},
          {"waited_seconds", to_json(times.waited_seconds)},
          {"slowest", slowest}};
}

}  // namespace

std::string to_json_line(const StepMetrics& s) {
  Json comm_bytes = Json::object(), comm_seconds = Json::object(), comm_exposed = Json::object();
  for (const auto& [name, c] : s.comm) {
    comm_bytes[name] = c.bytes;
    comm_seconds[name] = number(c.seconds);
    comm_exposed[name] = number(c.exposed_seconds);
  }
  Json json{{"step", s.step},
            {"tokens", s.tokens},
            {"loss", number(s.loss)},
            {"lr", number(s.lr)},
            {"grad_norm", number(s.grad_norm)},
            {"step_seconds", number(s.step_seconds)},
            {"tokens_per_second", number(s.tokens_per_second)},
            {"model_flops_per_second", number(s.model_flops_per_second)},
            {"mfu", number(s.mfu)},
            {"memory_peak_bytes", s.memory_peak_bytes},
            {"aux_loss", number(s.aux_loss)},
            {"z_loss", number(s.z_loss)},
            {"router_max_load", number(s.router_max_load)},
            {"dropped_fraction", number(s.dropped_fraction)},
            {"comm_bytes", comm_bytes},
            {"comm_seconds", comm_seconds},
            {"comm_exposed_seconds", comm_exposed},
            {"skipped_steps", s.skipped_steps}};
  if (!s.host_reads.empty()) json["host_reads"] = s.host_reads;
  if (!s.expert_load.empty()) {
    Json& layers = json["expert_load"] = Json::array();
    for (const auto& layer : s.expert_load) {
      Json& row = layers.emplace_back(Json::array());
      for (double value : layer) row.push_back(number(share(value)));
    }
  }
  if (s.schedule) {
    Json exposed = Json::object();
    for (const auto& [name, seconds] : s.schedule->exposed_seconds) exposed[name] = number(seconds);
    json["schedule"] = {{"predicted_seconds", number(s.schedule->predicted_seconds)},
                        {"measured_seconds", number(s.schedule->measured_seconds)},
                        {"exposed_seconds", exposed}};
  }
  if (s.ranks) json["ranks"] = to_json(*s.ranks);
  return json.dump();
}

std::string to_json_line(const EvalMetrics& e) {
  return Json{{"step", e.step},
              {"eval_tokens", e.tokens},
              {"eval_loss", number(e.loss)},
              {"eval_bits_per_byte", number(e.bits_per_byte)}}
      .dump();
}

std::string to_json_line(const SaveMetrics& s) {
  return Json{{"step", s.step}, {"checkpoint_bytes", s.bytes}, {"checkpoint_seconds", number(s.seconds)}}.dump();
}

MetricsRecord parse_json_line(std::string_view line) try {
  const Json json = Json::parse(line);
  const auto parsed = [&](auto record) {
    read(json, record);
    return record;
  };
  if (json.contains("eval_loss")) return parsed(EvalMetrics{});
  if (json.contains("checkpoint_bytes")) return parsed(SaveMetrics{});
  if (json.contains("loss")) return parsed(StepMetrics{});
  return {};
} catch (const nlohmann::json::exception&) {
  return {};
}

MetricsHistory read_metrics(const std::filesystem::path& path) {
  // A pipe or device, which the sink may write to, has nothing to read, or no end.
  if (const std::string problem = base::why_no_file(path.string()); problem == "no such file")
    base::fail(base::ExitCode::data, "cannot open ", path.string(), ": no metrics were written there");
  else if (!problem.empty())
    base::fail(base::ExitCode::data, path.string(), ": ", problem, ": there are no metrics to read");
  std::ifstream file(path);
  MetricsHistory history;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    MetricsRecord record = parse_json_line(line);
    if (auto* step = std::get_if<StepMetrics>(&record))
      history.steps.push_back(std::move(*step));
    else if (const auto* eval = std::get_if<EvalMetrics>(&record))
      history.evals.push_back(*eval);
    else if (const auto* save = std::get_if<SaveMetrics>(&record))
      history.saves.push_back(*save);
    else
      history.unreadable_lines.push_back(number);
  }
  return history;
}

}  // namespace hexad::telemetry
