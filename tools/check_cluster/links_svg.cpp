#include "tools/check_cluster/links_svg.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "framework/base/median.h"
#include "framework/base/units.h"
#include "framework/telemetry/page.h"

namespace hexad::check_cluster {
namespace {

using telemetry::escaped;

// Sizes in pixels.
constexpr int cell = 22, margin = 20, label = 110, heading = 64, between = 40, footer = 40;

constexpr std::string_view style = R"(<style>
  text { font: 12px sans-serif; fill: #24292f; } .title { font-size: 15px; font-weight: bold; }
  .end { text-anchor: end; } .middle { text-anchor: middle; } .page { fill: #ffffff; } .empty { fill: #d0d7de; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .page { fill: #0d1117; } .empty { fill: #30363d; }
  }
</style>
)";

using Ends = std::pair<int, int>;  // sender and receiver: numbers of nodes or ranks

/// Rows of the tables, and the measured values between them.
struct Table {
  std::vector<int> rows{};                       // numbers of nodes or ranks
  std::map<int, std::string> names{};            // names of the rows, by number
  std::map<Ends, double> per_byte{}, latency{};  // by ends: seconds per byte; seconds of latency
};

std::map<Ends, double> medians(std::map<Ends, std::vector<double>> values) {
  std::map<Ends, double> result;
  for (auto& [ends, list] : values) result[ends] = base::lower_median(std::move(list));
  return result;
}

Table table_of(const std::vector<RankReport>& ranks) {
  std::set<int> nodes;
  for (const RankReport& rank : ranks) nodes.insert(rank.node);
  const bool by_node = nodes.size() > 1;
  const auto number = [&](const RankReport& rank) { return by_node ? rank.node : rank.rank; };
  Table table;
  std::map<Ends, std::vector<double>> per_byte, latency;
  for (const RankReport& rank : ranks) {
    table.names[number(rank)] = by_node ? rank.facts.host : fmt::format("rank {}", rank.rank);
    for (const LinkFigure& link : rank.links) {
      const Ends ends{number(rank), number(ranks.at(link.to))};
      per_byte[ends].push_back(1 / link.rate());
      latency[ends].push_back(link.latency);
    }
  }
  table.per_byte = medians(std::move(per_byte));
  table.latency = medians(std::move(latency));
  std::map<int, double> worst;
  for (const auto& [ends, seconds] : table.per_byte)
    for (const int end : {ends.first, ends.second}) worst[end] = std::max(worst[end], seconds);
  for (const auto& [row, name] : table.names) table.rows.push_back(row);
  if (table.rows.size() > max_drawn) {
    std::stable_sort(table.rows.begin(), table.rows.end(), [&](int a, int b) { return worst[a] > worst[b]; });
    table.rows.resize(max_drawn);
    std::sort(table.rows.begin(), table.rows.end());
  }
  return table;
}

/// Colours from light (least) to dark (most), on a logarithmic scale.
class Scale {
 public:
  explicit Scale(const std::map<Ends, double>& values) {
    for (const auto& [ends, value] : values) {
      least_ = std::min(least_, std::log(value));
      most_ = std::max(most_, std::log(value));
    }
  }
  std::string colour(double value) const {
    // The scale covers at least a factor of 4. Links within a factor of 1.5 then have similar colours, so that noise
    // does not look like a fault.
    const double range = std::max(most_ - least_, std::log(4.0));
    const double share = std::clamp((std::log(value) - least_) / range, 0.0, 1.0);
    const auto mix = [share](int from, int to) { return static_cast<int>(from + share * (to - from)); };
    return fmt::format("#{:02x}{:02x}{:02x}", mix(0xd5, 0x8c), mix(0xea, 0x1d), mix(0xf7, 0x18));
  }

 private:
  double least_ = INFINITY, most_ = -INFINITY;
};

std::string text_at(std::string_view kind, int x, int y, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", kind, x, y, escaped(words));
}

std::string draw(const Table& table, const std::map<Ends, double>& values, std::string_view title, int left,
                 const std::function<std::string(double)>& format) {
  std::string out = text_at("title", left, 28, title);
  const Scale scale(values);
  const int x0 = left + label;
  const auto count = static_cast<int>(table.rows.size());
  for (int r = 0; r < count; ++r) {
    const int from = table.rows[r], y = heading + r * cell;
    const std::string& name = table.names.at(from);
    out += text_at("end", x0 - 6, y + 15, name.size() > 15 ? fmt::format("{:.14}…", name) : name);
    out += text_at("middle", x0 + r * cell + cell / 2, heading - 6, fmt::format("{}", from));
    for (int c = 0; c < count; ++c) {
      const int to = table.rows[c];
      const auto found = values.find({from, to});
      const std::string place =
          fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", x0 + c * cell, y, cell - 2, cell - 2);
      if (found == values.end())
        out += fmt::format("<rect class=\"empty\" {}/>\n", place);
      else
        out +=
            fmt::format("<rect fill=\"{}\" {}><title>from {} to {}: {}</title></rect>\n", scale.colour(found->second),
                        place, escaped(name), escaped(table.names.at(to)), escaped(format(found->second)));
    }
  }
  return out;
}

// Returns the best and the worst value as the text below a table.
std::string range_text(const std::map<Ends, double>& values, const std::function<std::string(double)>& format) {
  if (values.empty()) return "no links measured";
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [best, worst] = std::minmax_element(values.begin(), values.end(), less);
  return fmt::format("light: {}; dark: {}", format(best->second), format(worst->second));
}

}  // namespace

std::string links_svg(const std::vector<RankReport>& ranks) {
  const Table table = table_of(ranks);
  const auto rate = [](double per_byte) { return base::human_quantity(1 / per_byte, "B/s"); };
  const int side = std::max(static_cast<int>(table.rows.size()) * cell, 240);
  const int second = margin + label + side + between, bottom = heading + static_cast<int>(table.rows.size()) * cell;
  const int width = second + label + side + margin, height = bottom + footer;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
             "role=\"img\">\n<title>links between all pairs</title>\n{2}"
             "<rect class=\"page\" width=\"{0}\" height=\"{1}\" rx=\"6\"/>\n",
             width, height, style) +
         draw(table, table.per_byte, "bandwidth, from row to column", margin, rate) +
         draw(table, table.latency, "latency, from row to column", second, base::precise_duration) +
         text_at("", margin + label, bottom + 20, range_text(table.per_byte, rate)) +
         text_at("", second + label, bottom + 20, range_text(table.latency, base::precise_duration)) + "</svg>\n";
}

}  // namespace hexad::check_cluster
