#include "framework/telemetry/metrics_json.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/path_problem.h"

namespace hexad::telemetry {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

/// Rounds a fraction to six decimals. Six decimals are precise enough and keep lines short, for example with 60 layers
/// of 256 experts.
double share(double value) { return std::round(value * 1e6) / 1e6; }

void read(const Json& json, double& out) {
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    const double infinity = std::numeric_limits<double>::infinity();
    if (text == "NaN") return void(out = std::numeric_limits<double>::quiet_NaN());
    if (text == "Infinity") return void(out = infinity);
    if (text == "-Infinity") return void(out = -infinity);
  }
  json.get_to(out);  // throws if the value is not a number
}

void read(const Json& json, int64_t& out) { json.get_to(out); }
void read(const Json& json, std::string& out) { json.get_to(out); }
void read(const Json& json, bool& out) { json.get_to(out); }

void read(const Json& json, std::optional<double>& out) {
  if (json.is_null()) return out.reset();
  read(json, out.emplace());
}

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

void read(const Json& object, AdviceMetrics& a) {
  object.at("adviser").get_to(a.adviser);
  read(object, "advised", a.schedule);
  read(object, "verdict", a.verdict);
  read(object, "reason", a.reason);
  read(object, "slower", a.slower);
  read(object, "measured", a.measured);
}

void read_choice(const Json& object, std::optional<ChoiceMetrics>& choice) {
  const auto it = object.find("schedule_choice");
  if (it == object.end()) return;
  choice.emplace();
  it->at("chosen").get_to(choice->schedule);
  read(*it, "measured_seconds", choice->measured_seconds);
  if (const auto rows = it->find("advice"); rows != it->end())
    for (const Json& row : *rows) read(row, choice->advice.emplace_back());
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
  read(object, "prediction_loss", s.prediction_loss);
  read(object, "lr", s.lr);
  read(object, "grad_norm", s.grad_norm);
  read(object, "step_seconds", s.step_seconds);
  read(object, "tokens_per_second", s.tokens_per_second);
  read(object, "model_flops_per_second", s.model_flops_per_second);
  read(object, "mfu", s.mfu);
  read(object, "peak_flops_per_second", s.peak_flops_per_second);
  read(object, "memory_peak_bytes", s.memory_peak_bytes);
  read(object, "aux_loss", s.aux_loss);
  read(object, "z_loss", s.z_loss);
  read(object, "router_max_load", s.router_max_load);
  read(object, "dropped_fraction", s.dropped_fraction);
  read(object, "shadowed_experts", s.shadowed_experts);
  read_comm(object, s.comm);
  read(object, "host_reads", s.host_reads);
  read(object, "skipped_steps", s.skipped_steps);
  read(object, "expert_load", s.expert_load);
  read_schedule(object, s.schedule);
  read_choice(object, s.choice);
  read_ranks(object, s.ranks);
  read(object, "started_after", s.started_after);
  read(object, "stage", s.stage);
  read(object, "time", s.time);
}

void read(const Json& object, EvalMetrics& e) {
  object.at("step").get_to(e.step);
  read(object, "eval_tokens", e.tokens);
  read(object, "eval_loss", e.loss);
  read(object, "eval_bits_per_byte", e.bits_per_byte);
  read(object, "eval_sequences", e.sequences);
  read(object, "heldout_sequences", e.total_sequences);
  read(object, "eval_seconds", e.seconds);
  read_comm(object, e.comm);
  read(object, "time", e.time);
  // Older versions of this program wrote 0 if there were no targets or no text.
  if (e.tokens == 0) e.loss.reset();
  if (e.bits_per_byte == 0.0) e.bits_per_byte.reset();
}

void read(const Json& object, SaveMetrics& s) {
  object.at("step").get_to(s.step);
  read(object, "checkpoint_bytes", s.bytes);
  read(object, "checkpoint_seconds", s.seconds);
  read_comm(object, s.comm);
  read(object, "time", s.time);
}

/// Returns the kind of a line. A line of an older version of this program has no kind; its keys show the kind.
std::string kind_of(const Json& line) {
  if (const auto kind = line.find("kind"); kind != line.end()) return kind->get<std::string>();
  return line.contains("eval_loss") ? "evaluation" : line.contains("checkpoint_bytes") ? "save" : "step";
}

void correct_mfu(std::vector<StepMetrics>& steps) {
  double peak = 0;
  int64_t start = -1;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    if (std::exchange(start, s->started_after) != s->started_after) peak = 0;
    peak = std::max(peak, s->peak_flops_per_second);
    if (peak > s->peak_flops_per_second) s->mfu = s->model_flops_per_second / peak;
  }
}

bool has_dense_layers(const StepMetrics& s) {
  return std::ranges::any_of(s.expert_load, [](const auto& row) { return row.empty(); });
}

/// Adds rows for layers without experts to steps of older versions of this program, which wrote no such rows. Does
/// nothing if no step has such rows, because no newer version resumed the run.
void add_dense_layers(std::vector<StepMetrics>& steps) {
  const auto complete = std::ranges::find_if(steps, has_dense_layers);
  if (complete == steps.end()) return;
  const std::vector<std::vector<double>> layers = complete->expert_load;
  const auto with_experts = std::ranges::count_if(layers, [](const auto& row) { return !row.empty(); });
  for (StepMetrics& s : steps) {
    if (s.expert_load.empty() || has_dense_layers(s) || std::ssize(s.expert_load) != with_experts) continue;
    auto row = s.expert_load.begin();
    std::vector<std::vector<double>> placed(layers.size());
    for (size_t layer = 0; layer < layers.size(); ++layer)
      if (!layers[layer].empty()) placed[layer] = std::move(*row++);
    s.expert_load = std::move(placed);
  }
}

/// Returns [least, median, most] as JSON.
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

Json to_json(const ChoiceMetrics& c) {
  Json advice = Json::array();
  for (const AdviceMetrics& a : c.advice) {
    Json& row = advice.emplace_back(Json{{"adviser", a.adviser}, {"verdict", a.verdict}});
    if (!a.reason.empty()) row["reason"] = a.reason;
    if (a.schedule.empty()) continue;
    row["advised"] = a.schedule;
    row["slower"] = number(a.slower);
    row["measured"] = a.measured;
  }
  return {{"chosen", c.schedule}, {"measured_seconds", number(c.measured_seconds)}, {"advice", advice}};
}

void add_comm(Json& line, const CommByClass& comm) {
  Json bytes = Json::object(), seconds = Json::object(), exposed = Json::object();
  for (const auto& [name, c] : comm) {
    bytes[name] = c.bytes;
    seconds[name] = number(c.seconds);
    exposed[name] = number(c.exposed_seconds);
  }
  line["comm_bytes"] = std::move(bytes);
  line["comm_seconds"] = std::move(seconds);
  line["comm_exposed_seconds"] = std::move(exposed);
}

}  // namespace

std::string to_json_line(const StepMetrics& s) {
  Json json{{"kind", "step"},
            {"step", s.step},
            {"time", s.time},
            {"started_after", s.started_after},
            {"tokens", s.tokens},
            {"loss", number(s.loss)},
            {"lr", number(s.lr)},
            {"grad_norm", number(s.grad_norm)},
            {"step_seconds", number(s.step_seconds)},
            {"tokens_per_second", number(s.tokens_per_second)},
            {"model_flops_per_second", number(s.model_flops_per_second)},
            {"mfu", number(s.mfu)},
            {"peak_flops_per_second", number(s.peak_flops_per_second)},
            {"memory_peak_bytes", s.memory_peak_bytes},
            {"aux_loss", number(s.aux_loss)},
            {"z_loss", number(s.z_loss)},
            {"router_max_load", number(s.router_max_load)},
            {"dropped_fraction", number(s.dropped_fraction)}};
  add_comm(json, s.comm);
  json["skipped_steps"] = s.skipped_steps;
  if (s.prediction_loss) json["prediction_loss"] = number(s.prediction_loss);
  if (s.shadowed_experts > 0) json["shadowed_experts"] = number(s.shadowed_experts);
  if (s.stage > 0) json["stage"] = s.stage;
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
  if (s.choice) json["schedule_choice"] = to_json(*s.choice);
  if (s.ranks) json["ranks"] = to_json(*s.ranks);
  return json.dump();
}

std::string to_json_line(const EvalMetrics& e) {
  Json json{{"kind", "evaluation"},
            {"step", e.step},
            {"time", e.time},
            {"eval_tokens", e.tokens},
            {"eval_loss", number(e.loss)},
            {"eval_bits_per_byte", number(e.bits_per_byte)},
            {"eval_sequences", e.sequences},
            {"heldout_sequences", e.total_sequences},
            {"eval_seconds", number(e.seconds)}};
  add_comm(json, e.comm);
  return json.dump();
}

std::string to_json_line(const SaveMetrics& s) {
  Json json{{"kind", "save"},
            {"step", s.step},
            {"time", s.time},
            {"checkpoint_bytes", s.bytes},
            {"checkpoint_seconds", number(s.seconds)}};
  add_comm(json, s.comm);
  return json.dump();
}

MetricsRecord parse_json_line(std::string_view line) try {
  const Json json = Json::parse(line);
  const auto parsed = [&](auto record) {
    read(json, record);
    return record;
  };
  const std::string kind = kind_of(json);
  if (kind == "evaluation") return parsed(EvalMetrics{});
  if (kind == "save") return parsed(SaveMetrics{});
  if (kind == "step" && json.contains("loss")) return parsed(StepMetrics{});
  return {};
} catch (const nlohmann::json::exception&) {
  return {};
}

MetricsHistory read_metrics(const std::filesystem::path& path) {
  // Refuses pipes and devices. A sink may write to them, but they contain nothing to read, or never end.
  if (const std::string problem = base::file_problem(path.string()); problem == "no such file")
    base::fail(base::ExitCode::data, "cannot open ", path.string(), ": no such file; expected the metrics of a run");
  else if (!problem.empty())
    base::fail(base::ExitCode::data, path.string(), ": ", problem, "; expected a file with the metrics of a run");
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
  correct_mfu(history.steps);
  add_dense_layers(history.steps);
  return history;
}

}  // namespace hexad::telemetry
