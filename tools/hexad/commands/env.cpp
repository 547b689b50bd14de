#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>

#include "framework/base/error.h"
#include "framework/device/context.h"
#include "framework/kernels/cpu/products/products.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "framework/telemetry/report.h"
#include "parallel/comm/launcher.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/version.h"

namespace hexad::app {

using namespace train;

namespace {

// Returns one line about the GPU that `device: cuda` would use, or the reason why there is none.
std::string card() {
  try {
    return device::DeviceContext(device::ContextOptions{.kind = device::DeviceKind::cuda}).description();
  } catch (const base::Error& e) {
    return std::string("none: ") + e.what();
  }
}

// Returns the file name of the library that allocates memory in this process. This library can differ from the linked
// library, because LD_PRELOAD can replace malloc.
std::string allocator() {
  Dl_info library{};
  if (!dladdr(dlsym(RTLD_DEFAULT, "malloc"), &library) || !library.dli_fname) return "unknown";
  return std::filesystem::path(library.dli_fname).filename().string();
}

}  // namespace

void add_env(const Program& program) {
  const Command command =
      program.root.add_command("env", "Show the build of this program and the machine on which it runs");
  command.run(on_one_rank(command, [] {
    fmt::print("hexad        {}\n", version);
    fmt::print("compiled     for {}{}\n", architecture,
               architecture == "native" ? " (HEXAD_NATIVE: this machine only)" : "");
    fmt::print("processor    {}\n", processor_name());
    fmt::print("products     {}\n", kernels::cpu::products_description());
    fmt::print("loops        {}\n", kernels::cpu::name_of(kernels::cpu::machine_isa()));
    fmt::print("allocator    {}\n", allocator());
    fmt::print("charts       {}\n",
               telemetry::chart_library().empty()
                   ? "none; runs write no report. Install Chart.js (Debian: libjs-chart.js) and build again"
                   : "Chart.js");
    fmt::print("mpi          {}, launcher {}\n", comm::mpi_library().name, comm::mpiexec_name());
    fmt::print("devices      cpu, emulated\n");
    fmt::print("cuda         {}\n", card());
    return base::ExitCode::done;
  }));
}

}  // namespace hexad::app
