// Names of layers that the namespace `tests` uses without qualification in tests of MoE layers.
#pragma once

#include "layers/base/builder.h"
#include "layers/base/micro_batch.h"
#include "layers/moe/router/router_statistics.h"
#include "layers/registry.h"
#include "tests/support/names.h"

namespace hexad::tests {

using layers::Builder;
using layers::MicroBatch;
using layers::ModelStatistics;
using layers::Registry;
using layers::RouterStatistics;
using layers::StateSet;

}  // namespace hexad::tests
