// Passes of a matrix product in training: one forward and two backward.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace hexad::base {

/// Pass of a matrix product y = x W. The passes compute y, the gradient of x, and the gradient of W.
enum class GemmPass : uint8_t { forward, input_gradient, weight_gradient };
constexpr auto enum_names(GemmPass) {
  return std::to_array<std::pair<GemmPass, std::string_view>>({{GemmPass::forward, "forward"},
                                                               {GemmPass::input_gradient, "input_gradient"},
                                                               {GemmPass::weight_gradient, "weight_gradient"}});
}

}  // namespace hexad::base
