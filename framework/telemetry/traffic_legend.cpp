#include "framework/telemetry/traffic_legend.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "framework/telemetry/page.h"

namespace hexad::telemetry {
namespace {

struct Class {
  std::string_view name, meaning;
};

// A class at index i of this list has the colour --series-(i + 1).
constexpr Class known[] = {
    {"ep", "expert parallelism: tokens sent to the ranks of their experts, and the results sent back"},
    {"tp", "tensor parallelism: activations between ranks that share each weight matrix"},
    {"cp", "context parallelism: keys and values between ranks that share each sequence, and sums over its tokens"},
    {"pp", "pipeline parallelism: activations and gradients between stages, which hold different layers"},
    {"dp", "data parallelism: gradients that are summed over ranks, and weights that are split over ranks (ZeRO)"},
    {"control", "small messages of all ranks: losses, norms, counts, agreement on the next action"},
};

size_t place_of(const std::string& name) { return std::ranges::find(known, name, &Class::name) - std::begin(known); }

}  // namespace

std::vector<std::string> in_traffic_order(const std::set<std::string>& classes) {
  std::vector<std::string> ordered(classes.begin(), classes.end());
  std::ranges::stable_sort(ordered, {}, place_of);
  return ordered;
}

std::string traffic_legend(const std::set<std::string>& classes) {
  std::string items;
  for (const std::string& name : in_traffic_order(classes)) {
    const size_t place = place_of(name);
    items += fmt::format("<li><i style=\"background: var(--series-{})\"></i><b>{}</b> {}</li>\n", place + 1,
                         escaped(name), place < std::size(known) ? known[place].meaning : "");
  }
  return items.empty() ? "" : "<ul class=\"classes\">\n" + items + "</ul>\n";
}

}  // namespace hexad::telemetry
