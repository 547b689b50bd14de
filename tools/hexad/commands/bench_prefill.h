// The command `hexad bench prefill`.
#pragma once

#include "tools/hexad/commands/command.h"

namespace hexad::app {

/// Adds the command to `bench`.
void add_bench_prefill(const Command& bench, const Program& program);

}  // namespace hexad::app
