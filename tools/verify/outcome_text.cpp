#include "tools/verify/outcome_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tools/verify/finding_json.h"

namespace hexad::verify {
namespace {

using nlohmann::json;

constexpr size_t max_explained = 5;

constexpr std::string_view nothing_compared = "nothing was compared";

// Returns one line of the table. `compared` has the numbers of compared steps, tensors and elements.
std::string row(std::string_view mesh, std::string_view options, std::string_view compared, std::string_view worst,
                std::string_view where) {
  return fmt::format("{:<28} {:<72} {:>23} {:>8}  {}", mesh, options, compared, worst, where);
}

std::string short_text(const Compared& c) { return fmt::format("{} {} {}", c.steps, c.tensors, c.elements); }

}  // namespace

std::string request_of(const Variant& v) { return base::cat(v.mesh.world(), " ", v.text()); }

Variant variant_of(const std::string& request) {
  const size_t blank = request.find(' ');
  return parse_layouts(request.substr(blank + 1), std::stoi(request.substr(0, blank))).front();
}

std::string text_of(const Outcome& o) {
  json mismatches = json::array();
  for (const Finding& f : o.comparison.mismatches) mismatches.push_back(to_json(f));
  const Compared& c = o.comparison.compared;
  return json{{"worst", to_json(o.comparison.worst)},
              {"tolerance", o.comparison.tolerance},
              {"compared", {c.steps, c.tensors, c.elements}},
              {"mismatches", std::move(mismatches)},
              {"error", o.error},
              {"seconds", o.seconds}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Outcome outcome_from_json(const std::string& text, const Variant& variant) {
  const json j = json::parse(text);
  Outcome o{.variant = variant};
  o.comparison.worst = finding_from_json(j.at("worst"));
  for (const json& f : j.at("mismatches")) o.comparison.mismatches.push_back(finding_from_json(f));
  o.comparison.tolerance = j.at("tolerance").get<double>();
  const json& c = j.at("compared");
  o.comparison.compared = {c.at(0).get<int64_t>(), c.at(1).get<int64_t>(), c.at(2).get<int64_t>()};
  o.error = j.at("error").get<std::string>();
  o.seconds = j.at("seconds").get<double>();
  return o;
}

std::string table_head() { return row("mesh", "options", "steps tensors elements", "worst", "where"); }

std::string table_row(const Outcome& o) {
  const std::string mesh = o.variant.mesh_text(), options = o.variant.options_text();
  const std::string compared = short_text(o.comparison.compared);
  if (!o.error.empty()) return row(mesh, options, "", "FAILED", o.error.substr(0, o.error.find('\n')));
  if (!o.comparison.compared.something()) return row(mesh, options, compared, "FAILED", nothing_compared);
  const auto& mismatches = o.comparison.mismatches;
  const Finding& shown = mismatches.empty() ? o.comparison.worst : mismatches.front();
  std::string where = shown.what.empty() ? "bit for bit" : fmt::format("{}, step {}", shown.what, shown.step);
  if (!mismatches.empty()) where = "WRONG: " + where;
  if (mismatches.size() > 1) where += fmt::format(" (and {} more)", mismatches.size() - 1);
  return row(mesh, options, compared, fmt::format("{:.1e}", shown.relative), where);
}

std::string explanation(const Outcome& o) {
  if (!o.error.empty()) return o.variant.text() + ": " + o.error + "\n";
  if (!o.comparison.compared.something())
    return fmt::format("{}: {}: {}\n", o.variant.text(), nothing_compared, to_string(o.comparison.compared));
  std::string text;
  const auto& all = o.comparison.mismatches;
  for (size_t i = 0; i < std::min(all.size(), max_explained); ++i) {
    const Finding& f = all[i];
    const std::string size = std::isfinite(f.relative) ? fmt::format("off by {:.1e}; ", f.relative) : "";
    text += fmt::format("{}: step {}: {}: {}{}\n", o.variant.text(), f.step, f.what, size, f.detail);
  }
  if (all.size() > max_explained) text += fmt::format("... and {} more\n", all.size() - max_explained);
  return text;
}

}  // namespace hexad::verify
