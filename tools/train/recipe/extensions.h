// Layers, optimizers, data sources and other parts that a user's program adds to Hexad under a name.
#pragma once

#include "framework/data/sources.h"
#include "layers/registry.h"
#include "optim/update_rule.h"

namespace hexad::train {

/// Registry of all parts that a program may add and that recipes select by name: layers, routers and orders
/// (layers::Registry), optimizers (optim.name) and data sources (data.source). The registry is an argument of
/// hexad_main and of the library's functions, not a global: two runs in one process may need different parts.
struct Extensions : layers::Registry {
  Extensions(layers::Registry of_layers = {}) : layers::Registry(std::move(of_layers)) {}

  optim::UpdateRules optimizers;
  data::Sources sources;
};

}  // namespace hexad::train
