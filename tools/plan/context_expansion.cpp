#include "tools/plan/context_expansion.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

#include "framework/base/error.h"
#include "tools/plan/step_forecast.h"

namespace hexad::plan {
namespace {

// Returns the number of tokens that a text such as "4096", "4K" or "1M" states. Returns none for any other text, and
// for a number that is not from 1 to max_micro_batch_tokens.
std::optional<int64_t> length_of(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 1 || n > max_micro_batch_tokens) return {};
  const std::string_view unit = text.substr(end - text.data());
  if (unit == "K" || unit == "k")
    n <<= 10;
  else if (unit == "M" || unit == "m")
    n <<= 20;
  else if (!unit.empty())
    return {};
  return n <= max_micro_batch_tokens ? std::optional(n) : std::nullopt;
}

}  // namespace

std::vector<int64_t> context_lengths(std::string_view text) {
  const size_t dots = text.find("..");
  const std::optional<int64_t> first = length_of(text.substr(0, dots));
  const std::optional<int64_t> last = dots == text.npos ? first : length_of(text.substr(dots + 2));
  if (!first || !last)
    base::fail(base::ExitCode::usage, "'", text, "' given, expected a sequence length from 1 to ",
               context_text(max_micro_batch_tokens), " tokens, such as 4096 or 4K, or a range such as 4K..1M");
  std::vector<int64_t> lengths{*first};
  while (2 * lengths.back() <= *last) lengths.push_back(2 * lengths.back());
  if (lengths.back() != *last) {
    const auto range = [&](int64_t end) { return base::cat(context_text(*first), "..", context_text(end)); };
    base::fail(base::ExitCode::usage, "'", text, "' given, expected a last length that is ", context_text(*first),
               " times a power of two; nearest: ", range(lengths.back()),
               2 * lengths.back() <= max_micro_batch_tokens && *last > *first
                   ? base::cat(", ", range(2 * lengths.back()))
                   : "");
  }
  return lengths;
}

std::string context_text(int64_t tokens) {
  if (tokens % (1 << 20) == 0) return base::cat(tokens >> 20, "M");
  if (tokens % (1 << 10) == 0) return base::cat(tokens >> 10, "K");
  return base::cat(tokens);
}

ContextExpansion expansion_of(const mesh::Layout& layout) {
  base::require(layout.order().empty(), "[plan] an order of axes (", layout.order(),
                ") is not supported; expected a layout without an order");
  using base::Axis;
  const int64_t tp = layout.size(Axis::tp), cp = layout.size(Axis::cp), pp = layout.size(Axis::pp);
  const int64_t experts = int64_t{layout.size(Axis::ep)} * layout.size(Axis::etp);
  const int64_t ep = (experts + tp - 1) / tp;  // number of tp groups over which an EP group extends
  std::set<int> sequences;
  for (const int rank : layout.expert_sharers(0)) sequences.insert(layout.coordinate(Axis::dp, rank));

  using Kind = ContextExpansion::Kind;
  const bool horizontal = layout.expansion() == mesh::Expansion::horizontal;
  return {.kind = cp == 1      ? Kind::none
                  : horizontal ? Kind::horizontal
                               : Kind::vertical,
          .switched = horizontal ? cp * ep : std::max(cp, ep),
          .smallest_step = pp * (horizontal ? tp * cp * ep : std::lcm(tp * cp, experts)),
          .micro_batches = std::ssize(sequences)};
}

std::vector<ChangedAxis> changed_axes(const mesh::Layout& from, const mesh::Layout& to) {
  using enum base::Axis;
  std::vector<ChangedAxis> changed;
  for (const base::Axis axis : {tp, cp, ep, etp, pp, dp, edp})
    if (from.size(axis) != to.size(axis)) changed.push_back({axis, from.size(axis), to.size(axis)});
  return changed;
}

}  // namespace hexad::plan
