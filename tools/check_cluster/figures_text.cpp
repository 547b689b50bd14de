#include "tools/check_cluster/figures_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/median.h"
#include "framework/base/units.h"

namespace hexad::check_cluster {
namespace {

using Format = std::function<std::string(double)>;

// Returns a row with the smallest, the median and the largest value; an empty text without values.
std::string row(const std::string& name, const std::vector<double>& values, const Format& format) {
  if (values.empty()) return {};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return fmt::format("{:<34}{:>15}{:>15}{:>15}\n", name, format(*least), format(base::lower_median(values)),
                     format(*most));
}

Format quantity(std::string_view unit) {
  return [unit](double value) { return base::human_quantity(value, unit); };
}

std::string links_rows(const std::vector<RankReport>& ranks, bool across) {
  std::vector<double> rates, latencies;
  for (const RankReport& rank : ranks)
    for (const LinkFigure& link : rank.links) {
      if ((rank.node != ranks.at(link.to).node) != across) continue;
      rates.push_back(link.rate());
      latencies.push_back(link.latency);
    }
  const char* where = across ? "between nodes" : "inside nodes";
  return row(base::cat("messages ", where), rates, quantity("B/s")) +
         row(base::cat("latency ", where), latencies, base::precise_duration);
}

std::string collectives_rows(const std::vector<RankReport>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> kinds;  // seconds by group and row name
  for (const RankReport& rank : ranks)
    for (const CollectiveFigure& c : rank.collectives)
      kinds[{c.group, fmt::format("{} of {} ranks, {}", c.operation, c.ranks, c.group)}].push_back(c.seconds);
  std::string rows;
  for (const auto& [kind, seconds] : kinds) rows += row(kind.second, seconds, base::precise_duration);
  return rows;
}

std::string folder_rows(const std::vector<RankReport>& ranks) {
  std::vector<double> writes, renames, delays;
  bool checked = false;
  for (const RankReport& rank : ranks) {
    checked = checked || rank.folder.has_value();
    if (!rank.folder || !rank.folder->error.empty()) continue;
    writes.push_back(rank.folder->write_seconds);
    renames.push_back(rank.folder->rename_seconds);
    delays.push_back(std::max(rank.folder->late_seconds, rank.folder->stale_seconds));
  }
  if (!checked) return "folder                            not checked; --folder DIR checks one\n";
  return row("folder: write and fsync 1 MiB", writes, base::precise_duration) +
         row("folder: rename", renames, base::precise_duration) +
         row("folder: delay of visibility", delays, base::precise_duration);
}

// Returns rows about the GPUs; none if there are no GPUs.
std::string cards_rows(const std::vector<RankReport>& ranks) {
  std::vector<double> products, errors, temperatures, clocks, highest;
  std::set<std::string> drivers;
  bool any = false;
  const auto add = [](std::vector<double>& values, const auto& value) {
    if (value) values.push_back(static_cast<double>(*value));
  };
  for (const RankReport& rank : ranks) {
    if (rank.facts.card.empty()) continue;
    any = true;
    const CardState& state = rank.facts.card_state;
    if (rank.card_product_rate > 0) products.push_back(rank.card_product_rate);
    add(errors, state.uncorrected_errors), add(temperatures, state.temperature);
    add(clocks, state.clock), add(highest, state.highest_clock);
    if (!state.driver.empty()) drivers.insert(state.driver);
  }
  if (!any) return {};
  const auto known = [](const std::string& name, const std::vector<double>& values, std::string_view unit) {
    if (values.empty()) return fmt::format("{:<34}{:>15}\n", name, "unknown");
    return row(name, values, [unit](double value) { return fmt::format("{:.0f}{}", value, unit); });
  };
  return row("products of a GPU", products, quantity("FLOP/s")) + known("uncorrected ECC errors of a GPU", errors, "") +
         known("temperature of a GPU", temperatures, " C") + known("SM clock of a GPU", clocks, " MHz") +
         known("highest SM clock of a GPU", highest, " MHz") +
         fmt::format("{:<34}{:>15}\n", "driver of the GPUs",
                     drivers.empty()      ? "unknown"
                     : drivers.size() > 1 ? "differs"
                                          : *drivers.begin());
}

}  // namespace

std::string figures_table(const std::vector<RankReport>& ranks) {
  std::set<int> nodes;
  std::vector<double> products, copies, memory, offsets;
  int64_t cards = 0;
  for (const RankReport& rank : ranks) {
    nodes.insert(rank.node);
    products.push_back(rank.product_rate);
    copies.push_back(rank.copy_rate);
    memory.push_back(static_cast<double>(rank.facts.memory_available));
    if (rank.clock_offset && rank.rank != 0) offsets.push_back(std::abs(*rank.clock_offset));
    if (!rank.facts.card.empty()) ++cards;
  }
  const auto count = static_cast<int64_t>(ranks.size());
  const RankFacts& first = ranks.front().facts;
  return fmt::format("{} on {}; hexad {}; {}; {} with a GPU\n\n{:<34}{:>15}{:>15}{:>15}\n",
                     base::counted(count, "rank"), base::counted(static_cast<int64_t>(nodes.size()), "node"),
                     first.version, first.processor, base::counted(cards, "rank"), "", "least", "median", "most") +
         row("products of a rank", products, quantity("FLOP/s")) + row("copies of a rank", copies, quantity("B/s")) +
         cards_rows(ranks) + row("free memory of a rank's node", memory, base::human_bytes) + links_rows(ranks, false) +
         links_rows(ranks, true) + collectives_rows(ranks) +
         row("clocks, offset from node 0", offsets, base::precise_duration) + folder_rows(ranks);
}

std::string findings_list(const std::vector<Finding>& findings) {
  if (findings.empty()) return "no problems found\n";
  std::string text;
  for (const Finding& f : findings)
    text += f.code == base::ExitCode::done ? fmt::format("warning, {}: {}\n", f.kind, f.message)
                                           : fmt::format("failure, {}: {}; a run would end with exit code {}\n", f.kind,
                                                         f.message, static_cast<int>(f.code));
  return text;
}

}  // namespace hexad::check_cluster
