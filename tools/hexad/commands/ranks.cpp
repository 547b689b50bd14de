#include "tools/hexad/commands/ranks.h"

#include <exception>

#include <fmt/core.h>

namespace hexad::app {

using base::ExitCode;

ExitCode on_all_ranks(const std::function<ExitCode(comm::World&)>& body) {
  comm::World world;
  try {
    return body(world);
  } catch (const std::exception& e) {
    if (world.size() == 1) throw;
    const auto* error = dynamic_cast<const base::Error*>(&e);
    const ExitCode code = error ? error->code() : static_cast<ExitCode>(1);
    // All ranks find the same mistake in a recipe; the first one speaks for them.
    if (world.rank() == 0 || (code != ExitCode::usage && code != ExitCode::peer_lost))
      fmt::print(stderr, "hexad: rank {}: {}\n", world.rank(), e.what());
    world.abort_job(code);
  }
}

}  // namespace hexad::app
