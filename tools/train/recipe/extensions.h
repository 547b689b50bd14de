// Parts that a program adds to Hexad by name.
#pragma once

#include "framework/data/sources.h"
#include "layers/registry.h"
#include "optim/update_rule.h"

namespace hexad::train {

/// Registry of all parts that a recipe chooses by name and a program may add: layers, routers and orders
/// (layers::Registry), optimizers (optim.name) and data sources (data.source). The registry is an argument of
/// hexad_main and of the library's functions, not a global, because two uses in one process may differ.
struct Extensions : layers::Registry {
  Extensions(layers::Registry of_layers = {}) : layers::Registry(std::move(of_layers)) {}

  optim::UpdateRules optimizers;
  data::Sources sources;
};

}  // namespace hexad::train
