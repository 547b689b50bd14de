#include "tools/train/recipe/recipe_rules.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "framework/base/error.h"

namespace hexad::train {

using base::cat;
using config::Problems;

void check_rotary_share(const layers::ModelConfig& m, Problems& problems) {
  constexpr double rounding = 1e-3;  // tolerance in dimensions
  const int64_t size = m.size_of_head();
  const double turned = m.rotary_share * static_cast<double>(size);
  if (m.rotary_share == 1) {
    if (size % 2 != 0)
      problems.add(m.head_size ? "model.head_size" : "model.hidden",
                   cat("gives heads of odd size ", size, "; rotary positions need an even size"));
    return;
  }
  const int64_t rotated = m.rotary_size(), below = static_cast<int64_t>(turned) / 2 * 2;
  if (rotated >= 2 && rotated % 2 == 0 && std::abs(turned - static_cast<double>(rotated)) < rounding) return;
  std::string nearest;
  for (const int64_t even : {below, below + 2})
    if (even >= 2 && even <= size)
      nearest += cat(nearest.empty() ? "; nearest: " : ", ", static_cast<double>(even) / static_cast<double>(size));
  problems.add("model.rotary_share", cat("gives ", turned, " of the ", size,
                                         " dimensions of a head, but rotary positions need an even number", nearest));
}

void check_rotary_scaling(const layers::ModelConfig& m, Problems& problems) {
  if (!problems.good({"model.yarn", "model.rotary_scaling", "model.hidden", "model.heads", "model.head_size",
                      "model.rotary_share", "model.attention", "model.latent"}))
    return;
  const layers::RotaryScalingConfig& s = m.rotary_scaling;
  if (s.kind != layers::RotaryScaling::none && m.yarn.factor != 1)
    problems.add("model.rotary_scaling.kind",
                 cat("must be none with model.yarn.factor (", m.yarn.factor, "), which scales the same frequencies"));
  if (s.kind == layers::RotaryScaling::none && s.factor != 1)
    problems.add("model.rotary_scaling.factor",
                 "must be 1 for model.rotary_scaling.kind: none, which scales nothing; linear, ntk and llama3 read it");
  if (s.kind == layers::RotaryScaling::longrope) {
    const auto pairs = static_cast<size_t>(m.rotary_size() / 2);
    for (const auto& [key, list] : {std::pair{"short_factors", &s.short_factors}, {"long_factors", &s.long_factors}})
      if (list->size() != pairs)
        problems.add(
            cat("model.rotary_scaling.", key),
            cat("must have ", pairs, " numbers, one for each pair of dimensions that rotates, not ", list->size()));
    if (s.factor != 1)
      problems.add("model.rotary_scaling.factor",
                   "must be 1 for model.rotary_scaling.kind: longrope, which has a factor for each frequency");
  } else if (!s.short_factors.empty() || !s.long_factors.empty() || s.short_magnitude != 1 || s.long_magnitude != 1) {
    problems.add("model.rotary_scaling.kind",
                 "must be longrope for short_factors, long_factors, short_magnitude and long_magnitude, which only "
                 "longrope reads");
  }
  if (s.kind == layers::RotaryScaling::llama3 && s.high_freq_factor < s.low_freq_factor)
    problems.add("model.rotary_scaling.high_freq_factor",
                 cat("must be at least model.rotary_scaling.low_freq_factor (", s.low_freq_factor, ")"));
}

}  // namespace hexad::train
