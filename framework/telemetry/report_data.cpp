#include "framework/telemetry/report_data.h"

#include "framework/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace hexad::telemetry {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t max_points = 2000;   // approximate maximum number of points of a curve; a chart has about 1000 pixels
constexpr size_t max_snapshots = 48;  // maximum number of snapshots of expert loads
constexpr size_t max_cells = 1'000'000;  // maximum number of cells in all snapshots; two snapshots may exceed it

/// Rounds to six significant digits, or by the format `digits`, to keep the file small. A chart resolves fewer digits.
/// Returns null if `value` is not finite.
Json rounded(double value, const char* digits = "{:.6g}") {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format(fmt::runtime(digits), value));
}

/// Returns JSON that may be put into a <script> element. Each '<' is escaped, because "</script" would end the element.
std::string in_script(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos;) text.replace(at, 1, "\\u003c");
  return text;
}

Json rounded(const std::optional<double>& value) { return value ? rounded(*value) : Json(nullptr); }

double finite_or_infinity(double loss) { return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity(); }

/// All steps, and the indices of the steps that are drawn.
struct Table {
  const std::vector<StepMetrics>& steps;
  std::vector<size_t> rows;

  template <class F>
  Json column(F&& value) const {
    Json out = Json::array();
    for (size_t row : rows) out.push_back(value(steps[row]));
    return out;
  }
  Json numbers(double StepMetrics::*member) const {
    return column([member](const StepMetrics& s) { return rounded(s.*member); });
  }
};

std::vector<double> cumulative_seconds(const std::vector<StepMetrics>& steps) {
  std::vector<double> seconds;
  double sum = 0;
  for (const auto& s : steps) seconds.push_back(sum += std::isfinite(s.step_seconds) ? s.step_seconds : 0);
  return seconds;
}

/// Returns all names that occur in any step. Each name has a column with a value for every step, even if the name
/// occurs only in later steps.
template <class Map>
std::set<std::string> names(const std::vector<StepMetrics>& steps, Map StepMetrics::*member) {
  std::set<std::string> out;
  for (const auto& s : steps)
    for (const auto& [name, value] : s.*member) out.insert(name);
  return out;
}

Json memory_columns(const Table& table) {
  Json out = Json::object();
  for (const auto& name : names(table.steps, &StepMetrics::memory_peak_bytes)) {
    out[name] = table.column([&](const StepMetrics& s) {
      auto it = s.memory_peak_bytes.find(name);
      return it == s.memory_peak_bytes.end() ? 0 : it->second;
    });
  }
  return out;
}

/// Appearance of one kind of memory in the chart.
struct MemoryKind {
  std::string_view name, colour;
  bool stacked;  // true if memory of this kind is part of the memory in use
};

// The order is fixed. A kind therefore has the same colour and position in every run.
constexpr std::array<MemoryKind, 9> memory_kinds{{{"parameter", "series-1", true},
                                                  {"gradient", "series-2", true},
                                                  {"optimizer", "series-3", true},
                                                  {"activation", "series-4", true},
                                                  {"temporary", "series-5", true},
                                                  {"communication", "series-6", true},
                                                  {"connection", "series-7", true},
                                                  {"offload", "series-8", false},
                                                  {"held", "ink", false}}};

/// Returns the kinds of memory that the chart shows. Omits the total, which is about the height of the stack.
Json memory_chart(const Table& table) {
  Json out = Json::array();
  const auto add = [&](std::string_view name, std::string_view colour, bool stacked) {
    out.push_back({{"name", name}, {"colour", colour}, {"stacked", stacked}});
  };
  std::set<std::string> measured = names(table.steps, &StepMetrics::memory_peak_bytes);
  measured.erase("total");
  for (const MemoryKind& kind : memory_kinds)
    if (measured.erase(std::string(kind.name))) add(kind.name, kind.colour, kind.stacked);
  for (const std::string& name : measured) add(name, "muted", true);
  return out;
}

Json comm_columns(const Table& table) {
  Json out = Json::object();
  for (const auto& name : names(table.steps, &StepMetrics::comm)) {
    auto column = [&](auto&& value) {
      return table.column([&](const StepMetrics& s) {
        auto it = s.comm.find(name);
        return it == s.comm.end() ? Json(0) : value(it->second);
      });
    };
    out[name] = {{"bytes", column([](const CommMetrics& c) { return Json(c.bytes); })},
                 {"seconds", column([](const CommMetrics& c) { return rounded(c.seconds); })},
                 {"exposed_seconds", column([](const CommMetrics& c) { return rounded(c.exposed_seconds); })}};
  }
  return out;
}

/// Returns the indices of the rows with experts in the first step that has expert loads.
std::vector<size_t> moe_layers(const std::vector<StepMetrics>& steps) {
  std::vector<size_t> layers;
  auto it = std::find_if(steps.begin(), steps.end(), [](const auto& s) { return !s.expert_load.empty(); });
  if (it == steps.end()) return layers;
  for (size_t layer = 0; layer < it->expert_load.size(); ++layer)
    if (!it->expert_load[layer].empty()) layers.push_back(layer);
  return layers;
}

/// Returns the load of a layer's busiest expert divided by the mean load; null if it was not recorded.
Json max_over_mean(const StepMetrics& s, size_t layer) {
  if (layer >= s.expert_load.size() || s.expert_load[layer].empty()) return nullptr;
  const auto& load = s.expert_load[layer];
  return rounded(*std::max_element(load.begin(), load.end()) * static_cast<double>(load.size()), "{:.4g}");
}

Json expert_data(const Table& table) {
  const std::vector<size_t> layers = moe_layers(table.steps);
  Json out{{"layers", layers}, {"max_over_mean", Json::array()}, {"snapshots", Json::array()}};
  if (layers.empty()) return out;
  for (size_t layer : layers)
    out["max_over_mean"].push_back(table.column([&](const StepMetrics& s) { return max_over_mean(s, layer); }));
  const auto first =
      std::find_if(table.steps.begin(), table.steps.end(), [](auto& s) { return !s.expert_load.empty(); });
  const size_t cells = layers.size() * first->expert_load[layers[0]].size();
  for (size_t row : expert_load_snapshots(table.steps, std::clamp<size_t>(max_cells / cells, 2, max_snapshots))) {
    const StepMetrics& s = table.steps[row];
    Json load = Json::array();
    for (size_t layer : layers) {
      Json& cells_of_layer = load.emplace_back(Json::array());
      if (layer >= s.expert_load.size()) continue;
      for (double share : s.expert_load[layer]) cells_of_layer.push_back(rounded(share, "{:.4g}"));
    }
    out["snapshots"].push_back({{"step", s.step}, {"load", load}});
  }
  return out;
}

/// Evaluations of one text. They are the points of one curve. Two texts are assumed to be the same if `sequences`,
/// `total_sequences` and `tokens` are equal.
struct HeldoutCurve {
  int64_t sequences, total_sequences, tokens;
  std::vector<EvalMetrics> points{};

  bool has(const EvalMetrics& e) const {
    return e.sequences == sequences && e.total_sequences == total_sequences && e.tokens == tokens;
  }
  std::string name() const {
    if (total_sequences == 0) return fmt::format("held-out, {} tokens", base::human_count(static_cast<double>(tokens)));
    if (sequences == total_sequences) return "held-out, whole set";
    return fmt::format("held-out, {} of {} sequences", base::grouped(sequences), base::grouped(total_sequences));
  }
};

std::vector<HeldoutCurve> heldout_curves(const std::vector<EvalMetrics>& evals) {
  std::vector<HeldoutCurve> curves;
  for (const EvalMetrics& e : evals) {
    auto curve = std::ranges::find_if(curves, [&](const HeldoutCurve& c) { return c.has(e); });
    if (curve == curves.end()) curve = curves.insert(curve, {e.sequences, e.total_sequences, e.tokens});
    curve->points.push_back(e);
  }
  return curves;
}

/// Returns the columns of a curve. Tokens and time belong to the last training step at or before each evaluation; they
/// are 0 if there is no such step.
Json columns_of(const HeldoutCurve& curve, const MetricsHistory& history, const std::vector<double>& seconds) {
  Json step = Json::array(), tokens = Json::array(), time = Json::array(), loss = Json::array(), bits = Json::array();
  for (const auto& e : curve.points) {
    const auto after = std::upper_bound(history.steps.begin(), history.steps.end(), e.step,
                                        [](int64_t at, const StepMetrics& s) { return at < s.step; });
    const size_t row = after - history.steps.begin();
    step.push_back(e.step);
    tokens.push_back(row == 0 ? 0 : history.steps[row - 1].tokens);
    time.push_back(row == 0 ? Json(0) : rounded(seconds[row - 1]));
    loss.push_back(rounded(e.loss));
    bits.push_back(rounded(e.bits_per_byte));
  }
  return {{"name", curve.name()}, {"step", step}, {"tokens", tokens},
          {"seconds", time},      {"loss", loss}, {"bits_per_byte", bits}};
}

Json heldout_data(const MetricsHistory& history, const std::vector<double>& seconds) {
  Json out = Json::array();
  for (const HeldoutCurve& curve : heldout_curves(history.evals)) out.push_back(columns_of(curve, history, seconds));
  return out;
}

}  // namespace

std::vector<size_t> thin(const std::vector<StepMetrics>& steps, size_t limit) {
  std::vector<size_t> kept;
  const size_t n = steps.size(), buckets = std::max<size_t>(limit / 2, 1);
  if (n <= limit) {
    for (size_t i = 0; i < n; ++i) kept.push_back(i);
    return kept;
  }
  std::set<size_t> chosen{0, n - 1};
  for (size_t b = 0; b < buckets; ++b) {
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(n * b / buckets);
    const auto end = steps.begin() + static_cast<std::ptrdiff_t>(n * (b + 1) / buckets);
    // A step without targets has no loss, so it can be neither a minimum nor a maximum.
    const auto lower = [](const auto& x, const auto& y) {
      return finite_or_infinity(*x.loss) < finite_or_infinity(*y.loss);
    };
    auto low = begin, high = begin;
    for (auto s = begin; s != end; ++s) {
      if (!s->loss) continue;
      if (!low->loss || lower(*s, *low)) low = s;
      if (!high->loss || !lower(*s, *high)) high = s;
    }
    chosen.insert(low - steps.begin());
    chosen.insert(high - steps.begin());
  }
  return {chosen.begin(), chosen.end()};
}

std::vector<size_t> expert_load_snapshots(const std::vector<StepMetrics>& steps, size_t count) {
  std::vector<size_t> with_load;
  for (size_t i = 0; i < steps.size(); ++i)
    if (!steps[i].expert_load.empty()) with_load.push_back(i);
  if (with_load.size() <= count) return with_load;
  if (count == 1) return {with_load.back()};
  std::vector<size_t> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(with_load[i * (with_load.size() - 1) / (count - 1)]);
  return chosen;
}

std::string report_data(const MetricsHistory& history) {
  const std::vector<double> seconds = cumulative_seconds(history.steps);
  const Table table{history.steps, thin(history.steps, max_points)};
  Json time = Json::array();
  for (size_t row : table.rows) time.push_back(rounded(seconds[row]));
  const Json data{{"step", table.column([](const StepMetrics& s) { return s.step; })},
                  {"tokens", table.column([](const StepMetrics& s) { return s.tokens; })},
                  {"seconds", time},
                  {"loss", table.column([](const StepMetrics& s) { return rounded(s.loss); })},
                  {"prediction_loss", table.column([](const StepMetrics& s) { return rounded(s.prediction_loss); })},
                  {"lr", table.numbers(&StepMetrics::lr)},
                  {"grad_norm", table.numbers(&StepMetrics::grad_norm)},
                  {"step_seconds", table.numbers(&StepMetrics::step_seconds)},
                  {"tokens_per_second", table.numbers(&StepMetrics::tokens_per_second)},
                  {"model_flops_per_second", table.numbers(&StepMetrics::model_flops_per_second)},
                  {"mfu", table.numbers(&StepMetrics::mfu)},
                  {"aux_loss", table.numbers(&StepMetrics::aux_loss)},
                  {"z_loss", table.numbers(&StepMetrics::z_loss)},
                  {"router_max_load", table.numbers(&StepMetrics::router_max_load)},
                  {"dropped_fraction", table.numbers(&StepMetrics::dropped_fraction)},
                  {"memory", memory_columns(table)},
                  {"memory_chart", memory_chart(table)},
                  {"comm", comm_columns(table)},
                  {"experts", expert_data(table)},
                  {"heldout", heldout_data(history, seconds)}};
  return in_script(data);
}

std::string json_text(const std::string& text) { return in_script(text); }

}  // namespace hexad::telemetry
