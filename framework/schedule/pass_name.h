// Names of the passes of an MoE layer: the layer, and the kind of the pass.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "framework/base/enum_names.h"
#include "framework/base/error.h"

namespace hexad::schedule {

/// Kind of a pass. The kinds are in the order of execution. Each pass has one graph.
enum class PassKind : uint8_t {
  forward,
  backward,
  gradient_of_shares,  // after backward, under Parm's S1: ranks gather the gradients of their shares of the tokens
};
constexpr auto enum_names(PassKind) {
  return std::to_array<std::pair<PassKind, std::string_view>>({{PassKind::forward, "forward"},
                                                               {PassKind::backward, "backward"},
                                                               {PassKind::gradient_of_shares, "gradient of shares"}});
}
constexpr std::string_view name_of(PassKind kind) { return base::enum_name(kind); }

struct PassName {
  std::string layer;  // name of the layer, such as "layers.0.moe"
  PassKind kind;

  /// Returns the name in traces, reports and errors, such as "layers.0.moe forward".
  std::string text() const { return base::cat(layer, " ", name_of(kind)); }
  auto operator<=>(const PassName&) const = default;
};

}  // namespace hexad::schedule
