#include "tools/verify/selection.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/base/philox.h"

namespace hexad::verify {
namespace {

using base::ExitCode;
using base::fail;

// Merges pairs with the same second value into one line: "a=1 with c=3" and "b=2 with c=3" become "a=1, b=2 with c=3".
std::vector<std::string> by_second(const std::vector<std::string>& pairs) {
  std::vector<std::pair<std::string, std::string>> lines;  // such as " with c=3" and "a=1, b=2"
  for (const std::string& pair : pairs) {
    const size_t with = pair.find(" with ");
    const std::string first = pair.substr(0, with), second = pair.substr(with);
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == second; });
    if (same == lines.end())
      lines.emplace_back(second, first);
    else
      same->second += ", " + first;
  }
  std::vector<std::string> out;
  for (const auto& [second, first] : lines) out.push_back(first + second);
  return out;
}

std::string describe(const Covering& c, size_t all_meshes, int world) {
  std::string text =
      fmt::format("{} of {}: {} legal", all_meshes == 1 ? "1 mesh" : fmt::format("{} meshes", all_meshes),
                  base::counted(world, "rank"), c.meshes);
  for (const auto& [reason, count] : c.refused) text += fmt::format("\n  {:>4} illegal: {}", count, reason);
  text += fmt::format("\n{} {} every mesh and all {} of settings", base::counted(std::ssize(c.runs), "run"),
                      c.runs.size() == 1 ? "covers" : "cover", base::counted(static_cast<int64_t>(c.pairs), "pair"));
  if (!c.impossible.empty()) {
    text += fmt::format("; no legal layout was found for {}:", base::counted(std::ssize(c.impossible), "pair"));
    for (const std::string& line : by_second(c.impossible)) text += "\n  " + line;
  }
  return text;
}

// Draws `count` variants at random and returns them in their original order. At least one drawn variant has subject=own
// if `all` has such a variant.
std::vector<Variant> drawn(const std::vector<Variant>& all, size_t count, uint64_t seed) {
  std::vector<size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  const base::Philox random(seed, base::Purpose::sample, "verify");
  for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[random.below(n, n)]);
  const auto own = std::ranges::find_if(order, [&](size_t i) { return all[i]["subject"] == "own"; });
  if (own != order.end()) std::swap(*own, order.front());
  order.resize(std::min(count, order.size()));
  std::sort(order.begin(), order.end());
  std::vector<Variant> out;
  for (size_t i : order) out.push_back(all[i]);
  return out;
}

Selection listed(const std::string& layouts, int world, const Illegal& illegal) {
  Selection s{parse_layouts(layouts, world), {}};
  for (const Variant& v : s.runs)
    if (const std::string reason = illegal(v); !reason.empty())
      fail(ExitCode::usage, "--layouts: '", v.text(), "' is illegal for this recipe: ", reason);
  s.text = fmt::format("{} of {}", base::counted(std::ssize(s.runs), "layout"), base::counted(world, "rank"));
  return s;
}

}  // namespace

Selection select(const std::string& layouts, int world, const Illegal& illegal, uint64_t seed) {
  const std::optional<size_t> count = base::parsed_number<size_t>(layouts);
  if (layouts != "all" && !count) return listed(layouts, world, illegal);
  if (count == 0)
    fail(ExitCode::usage, "--layouts is 0, expected a whole number of at least 1, all, or a list of layouts");
  const std::vector<MeshSizes> meshes = meshes_of(world);
  Covering c = cover(meshes, illegal, seed);
  Selection s{{}, describe(c, meshes.size(), world)};
  s.runs = std::move(c.runs);
  if (s.runs.empty())
    fail(ExitCode::usage, "no layout of ", base::counted(world, "rank"), " is legal for this recipe\n", s.text);
  if (count && *count < s.runs.size()) {
    s.text += fmt::format("\n{} of these runs, drawn with seed {}", *count, seed);
    s.runs = drawn(s.runs, *count, seed);
  }
  return s;
}

}  // namespace hexad::verify
