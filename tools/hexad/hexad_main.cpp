#include "tools/hexad/hexad_main.h"

#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "tools/hexad/commands/command.h"
#include "tools/hexad/signals.h"
#include "tools/hexad/version.h"

namespace hexad {
namespace {

int run(int argc, char** argv, const layers::Registry& registry) {
  CLI::App app("Trains Mixture-of-Experts transformers with mpirun and a YAML recipe.", "hexad");
  app.set_version_flag("--version", std::string(app::version));
  app.require_subcommand(1);
  app::CommandLine line{app, registry};
  for (const auto add : {app::add_train, app::add_generate, app::add_eval, app::add_validate, app::add_prepare,
                         app::add_inspect, app::add_env, app::add_bench, app::add_reference})
    add(line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11 has its own exit codes; ours are part of the contract.
    return app.exit(e) == 0 ? 0 : static_cast<int>(base::ExitCode::usage);
  }
  return static_cast<int>(line.exit_code);
}

}  // namespace

int hexad_main(int argc, char** argv, const layers::Registry& registry) {
  app::install_signal_handlers();
  try {
    return run(argc, argv, registry);
  } catch (const base::Error& e) {
    fmt::print(stderr, "hexad: {}\n", e.what());
    return static_cast<int>(e.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "hexad: out of memory\n");
    return static_cast<int>(base::ExitCode::resource);
  } catch (const std::exception& e) {
    fmt::print(stderr, "hexad: internal error: {}\n", e.what());
    return 1;
  }
}

}  // namespace hexad
