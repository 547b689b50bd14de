#include "framework/telemetry/timeline_svg.h"

#include "framework/base/units.h"
#include "framework/base/utf8.h"
#include "framework/telemetry/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace hexad::telemetry {
namespace {

using schedule::Lane;
using schedule::TaskKind;
using schedule::Timeline;

// Lengths, in pixels.
constexpr int width = 1120, margin = 20, lane_label = 116, source_label = 66;
constexpr int plot_left = margin + lane_label + source_label, plot_width = width - plot_left - margin;
constexpr int heading = 56, legend_height = 26, bar_height = 22, bar_gap = 3, lane_gap = 12, axis_height = 40;
constexpr double letter = 6.7;  // approximate width of a letter, on bars and in the legend

constexpr std::string_view style = R"svg(<style>
  .timeline text { font: 12px sans-serif; fill: #24292f; }
  .timeline .title { font-size: 15px; font-weight: bold; } .timeline .lane-name { font-weight: bold; }
  .timeline .small { fill: #57606a; } .timeline .end { text-anchor: end; } .timeline .middle { text-anchor: middle; }
  .timeline .page { fill: #ffffff; } .timeline .track { fill: #f0f2f4; } .timeline .grid { stroke: #d5dade; }
  .timeline .task text { font-size: 11px; fill: #1b1f24; text-anchor: middle; }
  .timeline .bar { stroke: #24292f; stroke-width: 0.5; } .timeline .exposed { fill: url(#timeline-hatch); }
  .timeline .all_to_all { fill: #9ecbf0; } .timeline .all_gather { fill: #9fdcb4; }
  .timeline .reduce_scatter { fill: #8fd8d8; } .timeline .all_reduce { fill: #cdb8f2; }
  .timeline .send { fill: #e8dc7a; } .timeline .compute { fill: #f6c177; } .timeline .copy { fill: #d3c1ae; }
  @media (prefers-color-scheme: dark) {
    .timeline text { fill: #e6edf3; } .timeline .small { fill: #9aa4ae; } .timeline .page { fill: #0d1117; }
    .timeline .track { fill: #1b2129; } .timeline .grid { stroke: #3a424b; }
  }
</style>
<defs><pattern id="timeline-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<line x1="0" y1="0" x2="0" y2="6" stroke="#b3261e" stroke-width="3" stroke-opacity="0.55"/></pattern></defs>
)svg";

struct TimeUnit {
  std::string_view name;
  double per_second;
  std::string operator()(double seconds) const { return fmt::format("{} {}", number(seconds), name); }
  std::string number(double seconds) const {
    const double value = seconds * per_second + 0.0;  // adding 0 turns -0 into 0
    return std::abs(value) < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
  }
};

TimeUnit unit_for(double seconds) {
  if (seconds >= 1) return {"s", 1};
  return seconds >= 1e-3 ? TimeUnit{"ms", 1e3} : TimeUnit{"µs", 1e6};
}

/// Returns the smallest step that divides `length` into at most eight steps. A step is 1, 2 or 5 times a power of ten.
double tick_step(double length) {
  const double power = std::pow(10, std::floor(std::log10(length / 8)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power * 8 >= length) return factor * power;
  return 10 * power;
}

class Drawing {
 public:
  Drawing(std::string_view title, const TimelinePair& timelines) : title_(title) {
    if (timelines.measured) sources_.push_back({"measured", timelines.measured});
    if (timelines.predicted) sources_.push_back({"predicted", timelines.predicted});
    for (const Source& source : sources_)
      for (const Timeline::Span& span : source.timeline->spans) {
        rows_.insert(row_of(span)), kinds_.insert(span.task.kind);
        first_ = std::min(first_, span.begin), last_ = std::max(last_, span.end);
      }
    unit_ = unit_for(last_ - first_);
  }

  std::string draw() {
    const int rows = static_cast<int>(rows_.size()), row = lane_height() + lane_gap;
    const int top = heading + legend_height, height = top + rows * row + axis_height;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" style=\"max-width:100%;height:auto\" role=\"img\">\n<title>{2}</title>\n{3}"
        "<rect class=\"page\" width=\"{0}\" height=\"{1}\" rx=\"6\"/>\n",
        width, height, escaped(title_), style);
    text("title", margin, 26, title_);
    text("small", margin, 45, summary());
    if (rows_.empty()) {
      text("small", margin, top, "No task ran.");
    } else {
      legend();
      axis(top, top + rows * row);
      int y = top;
      for (const Row& lane : rows_) draw_lane(lane, y), y += row;
    }
    return std::move(out_) + "</svg>\n";
  }

 private:
  struct Source {
    std::string_view name;
    const Timeline* timeline;
  };
  using Row = std::pair<Lane, std::string>;  // lane and name of the row

  static Row row_of(const Timeline::Span& span) { return {span.task.lane, row_name(span.task)}; }
  int lane_height() const { return static_cast<int>(sources_.size()) * (bar_height + bar_gap) - bar_gap; }
  double x_of(double seconds) const {
    return plot_left + (last_ > first_ ? (seconds - first_) / (last_ - first_) * plot_width : 0);
  }

  void text(std::string_view kind, double x, int y, std::string_view words) {
    out_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", kind, x, y, escaped(words));
  }

  std::string summary() const {
    std::string out;
    for (const auto& [name, timeline] : sources_)
      out += fmt::format("{}{} {}, of which {} is exposed communication", out.empty() ? "" : "; ", name,
                         unit_(timeline->total()), unit_(timeline->exposed()));
    if (sources_.size() < 2 || sources_[0].timeline->spans.empty() || sources_[1].timeline->spans.empty()) return out;
    return out + fmt::format("; the prediction is off by {:+.1f}%",
                             100 * (prediction_ratio(*sources_[1].timeline, *sources_[0].timeline) - 1));
  }

  void legend() {
    double x = margin;
    const auto entry = [&](std::string_view fill, std::string_view name) {
      out_ += fmt::format("<rect class=\"bar {}\" x=\"{:.1f}\" y=\"{}\" width=\"14\" height=\"12\"/>\n", fill, x,
                          heading + 2);
      text("small", x + 19, heading + 12, name);
      x += 19 + letter * static_cast<double>(base::utf8_characters(name)) + 20;
    };
    for (const TaskKind kind : kinds_) entry(name_of(kind), name_of(kind));
    entry("exposed", "exposed: no computation at the same time");
  }

  void axis(int top, int bottom) {
    const double step = last_ > first_ ? tick_step(last_ - first_) : 1;
    // Multiplies the step, because repeated addition would accumulate rounding errors.
    for (double n = std::ceil(first_ / step - 1e-9); n * step <= last_ + 1e-9 * step; ++n) {
      const double x = x_of(n * step);
      out_ += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>\n", x, top - 4,
                          bottom);
      text("small middle", x, bottom + 16, unit_.number(n * step));
    }
    text("small end", plot_left - 10, bottom + 16, fmt::format("time, {}", unit_.name));
  }

  void draw_lane(const Row& row, int y) {
    out_ += fmt::format("<g class=\"lane\">\n");
    text("lane-name", margin, y + lane_height() / 2 + 4, row.second);
    for (const auto& [name, timeline] : sources_) {
      text("small end", plot_left - 10, y + bar_height / 2 + 4, name);
      out_ += fmt::format("<rect class=\"track\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", plot_left, y,
                          plot_width, bar_height);
      for (size_t i = 0; i < timeline->spans.size(); ++i)
        if (row_of(timeline->spans[i]) == row) draw_task(name, *timeline, i, y);
      y += bar_height + bar_gap;
    }
    out_ += "</g>\n";
  }

  void rectangle(std::string_view kind, double begin, double end, int y) {
    out_ += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\"/>", kind, x_of(begin),
                        y, x_of(end) - x_of(begin), bar_height);
  }

  void draw_task(std::string_view source, const Timeline& timeline, size_t i, int y) {
    const auto& [task, begin, end] = timeline.spans[i];
    std::string about = fmt::format("{} {}: {}, {} from {} to {}", source, task.name, name_of(task.kind),
                                    unit_(end - begin), unit_(begin), unit_(end));
    if (task.cost.flops > 0) about += ", " + base::human_quantity(task.cost.flops, "FLOP");
    if (task.cost.wire_bytes > 0) about += fmt::format(", {} sent", base::human_bytes(double(task.cost.wire_bytes)));
    if (task.cost.copy_bytes > 0) about += fmt::format(", {} copied", base::human_bytes(double(task.cost.copy_bytes)));
    if (!task.cost.group.empty()) about += fmt::format(", {} of {}", task.cost.group, task.cost.group_size);
    out_ += fmt::format("<g class=\"task\"><title>{}</title>", escaped(about));
    rectangle(fmt::format("bar {}", name_of(task.kind)), begin, end, y);
    if (is_communication(task.kind))
      for (const auto& part : timeline.exposed_parts(static_cast<schedule::TaskId>(i)))
        rectangle("exposed", part.begin, part.end, y);
    if (const double left = x_of(begin), right = x_of(end);
        letter * static_cast<double>(base::utf8_characters(task.name)) + 4 <= right - left)
      out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>", (left + right) / 2, y + bar_height / 2 + 4,
                          escaped(task.name));
    out_ += "</g>\n";
  }

  std::string_view title_;
  std::vector<Source> sources_;
  std::set<Row> rows_;
  std::set<TaskKind> kinds_;
  double first_ = 0, last_ = 0;  // start and end of the time axis, in seconds
  TimeUnit unit_{};
  std::string out_;
};

}  // namespace

std::string timeline_svg(std::string_view title, const TimelinePair& timelines) {
  return Drawing(title, timelines).draw();
}

}  // namespace hexad::telemetry
