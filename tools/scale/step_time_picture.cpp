#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/units.h"
#include "framework/telemetry/page.h"
#include "tools/scale/results_page.h"

namespace hexad::scale {
namespace {

constexpr double width = 860, height = 360, left = 80, right = 260, top = 20, bottom = 50;
constexpr double legend_line = 16;
constexpr std::array<const char*, 8> colours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                             "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

// A row's position on the horizontal axis, and the name of the line to which it belongs.
struct Placed {
  size_t x;
  std::string line;
  const ResultRow* row;
};

struct Plot {
  std::string x_name;
  std::vector<std::string> ticks;
  std::vector<Placed> placed;
  std::vector<std::string> lines;
  double max_seconds = 0;
};

size_t index_in(std::vector<std::string>& list, const std::string& text) {
  const auto found = std::ranges::find(list, text);
  if (found != list.end()) return found - list.begin();
  list.push_back(text);
  return list.size() - 1;
}

// Returns the index of the experiment's axis that the x axis shows; nullopt if the x axis shows the numbers of ranks.
std::optional<size_t> axis_to_draw(const Results& results) {
  const auto varies = [&](const auto& of) {
    return std::ranges::any_of(results.rows, [&](const ResultRow& r) { return of(r) != of(results.rows.front()); });
  };
  if (varies([](const ResultRow& r) { return r.ranks; })) return std::nullopt;
  for (size_t a = 0; a < results.axes.size(); ++a)
    if (varies([a](const ResultRow& r) { return r.values[a]; })) return a;
  return std::nullopt;
}

Plot plot_of(const Results& results) {
  const std::optional<size_t> axis = axis_to_draw(results);
  Plot plot{.x_name = axis ? results.axes[*axis] : std::string("ranks"), .ticks = {}, .placed = {}, .lines = {}};
  for (const ResultRow& row : results.rows) {
    std::vector<std::string> rest;
    for (size_t a = 0; a < row.values.size(); ++a)
      if (a != axis) rest.push_back(fmt::format("{} {}", results.axes[a], row.values[a]));
    const std::string line = rest.empty() ? std::string("all points") : fmt::format("{}", fmt::join(rest, ", "));
    const std::string tick = axis ? row.values[*axis] : std::to_string(row.ranks);
    plot.placed.push_back({.x = index_in(plot.ticks, tick), .line = line, .row = &row});
    index_in(plot.lines, line);
    if (row.measured) plot.max_seconds = std::max(plot.max_seconds, row.measured->most);
    plot.max_seconds = std::max(plot.max_seconds, row.forecast.step_seconds.value_or(0));
  }
  return plot;
}

// Rounds the end of an axis up, so that the labels at its fifths have few digits.
double rounded_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double times : {1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5})
    if (value <= times * power) return times * power;
  return 10 * power;
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) : plot_(plot), high_(plot.max_seconds > 0 ? rounded_up(plot.max_seconds) : 1) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n",
        width, std::max(height, legend_y(plot.lines.size())));
  }

  std::string text() {
    frame();
    for (size_t i = 0; i < plot_.lines.size(); ++i) line(i);
    return out_ + "</svg>\n";
  }

 private:
  // Returns the baseline of a line of the legend.
  static double legend_y(size_t number) { return top + 10 + legend_line * static_cast<double>(number); }
  double x(size_t tick) const {
    const double step = (width - left - right) / static_cast<double>(plot_.ticks.size());
    return left + step * (static_cast<double>(tick) + 0.5);
  }
  double y(double seconds) const { return height - bottom - seconds / high_ * (height - top - bottom); }

  void frame() {
    constexpr int grid_lines = 5;
    for (int i = 0; i <= grid_lines; ++i) {
      const double seconds = high_ * i / grid_lines;
      out_ += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n", left,
                          width - right, y(seconds));
      out_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 6, y(seconds) + 4,
                          i == 0 ? std::string("0") : base::precise_duration(seconds));
    }
    for (size_t t = 0; t < plot_.ticks.size(); ++t)
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x(t), height - bottom + 18,
                          telemetry::escaped(plot_.ticks[t]));
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (left + width - right) / 2,
                        height - 10, telemetry::escaped(plot_.x_name));
  }

  void line(size_t number) {
    const char* colour = colours.at(number % colours.size());
    std::string measured, predicted;
    for (const Placed& p : plot_.placed) {
      if (p.line != plot_.lines[number]) continue;
      if (p.row->forecast.step_seconds)
        predicted += fmt::format("{:.1f},{:.1f} ", x(p.x), y(*p.row->forecast.step_seconds));
      if (!p.row->measured) continue;
      const PointMeasurement& m = *p.row->measured;
      measured += fmt::format("{:.1f},{:.1f} ", x(p.x), y(m.step_seconds));
      out_ += fmt::format(
          "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"3.5\" fill=\"{4}\"/>"
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{2:.1f}\" y2=\"{3:.1f}\" stroke=\"{4}\" stroke-width=\"2\"/>\n",
          x(p.x), y(m.step_seconds), y(m.least), y(m.most), colour);
    }
    out_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", measured, colour);
    out_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-dasharray=\"5 4\"/>\n", predicted,
                        colour);
    const double at = legend_y(number);
    out_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", width - right + 12, at, colour,
                        telemetry::escaped(plot_.lines[number]));
  }

  const Plot& plot_;
  const double high_;
  std::string out_;
};

}  // namespace

std::string step_time_picture(const Results& results) {
  if (results.rows.empty()) return {};
  const Plot plot = plot_of(results);
  return Drawing(plot).text();
}

}  // namespace hexad::scale
