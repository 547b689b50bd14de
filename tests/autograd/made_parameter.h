// Functions that create parameters with initial values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/autograd/parameter.h"
#include "tests/support/lab.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;

inline constexpr uint64_t seed = 7;

inline Parameter::Spec spec(const std::string& name, Shape shape = {4, 6, 8}) {
  return {.name = name, .global_shape = shape, .placement = {}, .init = {}};
}

inline std::unique_ptr<Parameter> made(Lab& lab, const std::string& name, Dtype dtype = Dtype::f32,
                                       std::vector<Shard> shards = {}) {
  Parameter::Spec s = spec(name);
  s.dtype = dtype;
  s.placement.shards = std::move(shards);
  auto p = std::make_unique<Parameter>(s, lab.context);
  p->initialize(seed);
  return p;
}

}  // namespace hexad::tests
