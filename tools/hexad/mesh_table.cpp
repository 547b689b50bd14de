#include "tools/hexad/mesh_views.h"

#include <set>
#include <vector>

#include <fmt/format.h>

#include "framework/base/counted.h"

namespace hexad::app {
namespace {

using mesh::Axis;

constexpr Axis dense_axes[] = {Axis::pp, Axis::dp, Axis::cp, Axis::tp};
constexpr Axis expert_axes[] = {Axis::edp, Axis::ep, Axis::etp};

// Returns a text like "0-3" or "0 2 4 6".
std::string ranks_text(const std::vector<int>& ranks) {
  bool run = ranks.size() > 2;
  for (size_t i = 1; i < ranks.size(); ++i) run &= ranks[i] == ranks[i - 1] + 1;
  return run ? fmt::format("{}-{}", ranks.front(), ranks.back()) : fmt::format("{}", fmt::join(ranks, " "));
}

void add_groups(std::string& text, const mesh::Layout& layout, std::string_view name, const auto& members) {
  std::set<std::vector<int>> groups;
  mesh::for_each_group(layout.world(), members, [&](const std::vector<int>& ranks) { groups.insert(ranks); });
  if (groups.begin()->size() == 1) return;
  text += fmt::format("{:<9}", name);
  for (const auto& group : groups) text += fmt::format(" [{}]", ranks_text(group));
  text += "\n";
}

}  // namespace

std::string mesh_table(const mesh::Layout& layout) {
  std::string text = fmt::format("mesh of {}: {}\n\n", base::counted(layout.world(), "rank"), layout.to_string());
  text += " rank |  pp  dp  cp  tp | edp  ep etp\n";
  for (int r = 0; r < layout.world(); ++r) {
    text += fmt::format("{:>5} |", r);
    for (Axis axis : dense_axes) text += fmt::format("{:>4}", layout.coordinate(axis, r));
    text += " |";
    for (Axis axis : expert_axes) text += fmt::format("{:>4}", layout.coordinate(axis, r));
    text += "\n";
  }
  text += "\ngroups of more than one rank\n";
  const size_t heading = text.size();
  for (Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::etp, Axis::ep, Axis::edp})
    add_groups(text, layout, mesh::name_of(axis), [&](int r) { return layout.members(axis, r); });
  add_groups(text, layout, "dense", [&](int r) { return layout.reducers({.view = mesh::MeshView::dense}, r); });
  if (text.size() == heading) return text + "none\n";
  return text +
         "(dense: ranks that sum gradients of weights outside experts; edp: ranks that sum gradients of experts)\n";
}

}  // namespace hexad::app
