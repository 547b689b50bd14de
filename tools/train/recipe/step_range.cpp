#include "tools/train/recipe/step_range.h"

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"

namespace hexad::train {
namespace {

std::optional<int64_t> parse_step(std::string_view text) {
  const auto step = base::parsed_number<int64_t>(text);
  return step && *step >= 1 ? step : std::nullopt;
}

}  // namespace

std::optional<StepRange> parse_steps(std::string_view text) {
  const size_t dots = text.find("..");
  const auto first = parse_step(text.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : parse_step(text.substr(dots + 2));
  if (!first || !last || *last < *first) return {};
  return StepRange{*first, *last};
}

std::string to_string(const StepRange& steps) {
  return steps.first == steps.last ? base::cat(steps.first) : base::cat(steps.first, "..", steps.last);
}

}  // namespace hexad::train
