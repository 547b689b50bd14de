#include "tools/plan/step_comparison.h"

#include <numeric>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/base/units.h"

namespace hexad::plan {
namespace {

using Unit = ComparedRow::Unit;
using ByClass = std::array<double, comm::traffic_class_count>;

// Means over the pipeline stages, which have equal numbers of ranks.
struct MeanStage {
  double busy = 0, idle = 0;
  ByClass exposed{}, sent{};

  explicit MeanStage(const std::vector<StepForecast::Stage>& stages) {
    const auto count = static_cast<double>(stages.size());
    for (const StepForecast::Stage& s : stages) {
      busy += s.busy / count, idle += s.idle / count;
      for (size_t c = 0; c < exposed.size(); ++c) exposed[c] += s.exposed[c] / count, sent[c] += s.sent[c] / count;
    }
  }
};

std::string text_of(const std::optional<double>& value, Unit unit) {
  if (!value) return "–";
  return unit == Unit::seconds ? base::precise_duration(*value) : base::human_bytes(*value);
}

}  // namespace

std::optional<double> ComparedRow::ratio() const {
  if (!predicted || !measured || *predicted <= 0) return {};
  return *measured / *predicted;
}

std::array<std::string, 4> ComparedRow::cells() const {
  const std::optional<double> r = ratio();
  return {name, text_of(predicted, unit), text_of(measured, unit), r ? fmt::format("{:.2f}", *r) : "–"};
}

std::vector<ComparedRow> compare(const StepForecast& forecast, double memory, const MeasuredStep& measured) {
  const MeanStage mean(forecast.stages);
  const double step = measured.summary.step_seconds.median;
  const double waited = step * measured.summary.exposed_share_of_all();
  std::vector<ComparedRow> rows{
      {"step time", Unit::seconds, forecast.seconds, step},
      {"own work", Unit::seconds, mean.busy, step - waited},
      {"waiting", Unit::seconds, std::accumulate(mean.exposed.begin(), mean.exposed.end(), mean.idle), waited}};
  const auto name = [](int c) { return std::string(name_of(static_cast<comm::TrafficClass>(c))); };
  for (int c = 0; c < comm::traffic_class_count; ++c) {
    const auto share = measured.summary.exposed_share.find(name(c));
    const double seconds = share == measured.summary.exposed_share.end() ? 0 : share->second * step;
    if (mean.exposed[c] > 0 || seconds > 0)
      rows.push_back({base::cat("  in ", name(c)), Unit::seconds, mean.exposed[c], seconds});
  }
  rows.push_back({"  idle", Unit::seconds, mean.idle, {}});
  for (int c = 0; c < comm::traffic_class_count; ++c) {
    const double predicted = mean.sent[c] * static_cast<double>(measured.ranks);
    if (predicted > 0 || measured.sent[c] > 0)
      rows.push_back({base::cat("sent in ", name(c)), Unit::bytes, predicted, measured.sent[c]});
  }
  const auto peak = static_cast<double>(measured.summary.peak_memory_bytes);
  rows.push_back({"memory peak", Unit::bytes, memory, peak > 0 ? std::optional(peak) : std::nullopt});
  return rows;
}

}  // namespace hexad::plan
