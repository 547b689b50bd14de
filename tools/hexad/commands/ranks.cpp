#include "tools/hexad/commands/ranks.h"

#include <exception>
#include <new>

#include <fmt/core.h>

namespace hexad::app {

using base::ExitCode;

namespace {

// As alone, in hexad_main.
ExitCode exit_code_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const base::Error*>(&e)) return error->code();
  if (dynamic_cast<const std::bad_alloc*>(&e)) return ExitCode::resource;
  return static_cast<ExitCode>(1);
}

}  // namespace

ExitCode on_all_ranks(const std::function<ExitCode(comm::World&)>& body) {
  comm::World world;
  try {
    return body(world);
  } catch (const std::exception& e) {
    if (world.size() == 1) throw;
    const ExitCode code = exit_code_of(e);
    // All ranks find the same mistake in a recipe; the first one speaks for them.
    if (world.rank() == 0 || (code != ExitCode::usage && code != ExitCode::peer_lost))
      fmt::print(stderr, "hexad: rank {}: {}\n", world.rank(), e.what());
    world.abort_job(code);
  }
}

}  // namespace hexad::app
