#include "tools/plan/profile/profile.h"
#include "framework/base/units.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/chrono.h>

#include "framework/base/atomic_file.h"
#include "framework/base/error.h"
#include "framework/device/offload_arena.h"
#include "framework/kernels/cpu/products/products.h"
#include "framework/kernels/cpu/simd/isa.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/usage.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/version.h"

namespace hexad::app {

using namespace train;

namespace {

using base::ExitCode;

struct ProfileArguments {
  std::string out = "cluster.yaml";
  bool quick = false;
  std::optional<double> seconds;
  int threads = 0;
  std::vector<std::string> products;
  std::string offload_folder = "/tmp";
};

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

plan::ProductShape product_shape(const std::string& text) {
  plan::ProductShape shape{};
  int64_t* const sizes[] = {&shape.experts, &shape.inputs, &shape.outputs};
  const char *at = text.data(), *const end = at + text.size();
  for (int64_t* size : sizes) {
    const auto [rest, error] = std::from_chars(at, end, *size);
    const bool last = size == sizes[2];
    if (error != std::errc() || *size < 1 || (last ? rest != end : rest == end || *rest != 'x'))
      base::fail(ExitCode::usage, "--product (", text, ") must be EXPERTSxINPUTSxOUTPUTS, such as 8x512x1024");
    at = rest + (last ? 0 : 1);
  }
  return shape;
}

// Returns --offload-folder. Throws Error(usage) before the measurement if no file can be created in this folder.
std::string offload_folder(const ProfileArguments& o) {
  try {
    device::OffloadArena file(o.offload_folder);
  } catch (const base::Error& e) {
    base::fail(ExitCode::usage, "--offload-folder (", o.offload_folder, "): ", e.what());
  }
  return o.offload_folder;
}

plan::ProfileOptions profile_options(const ProfileArguments& o, const comm::World& world) {
  plan::ProfileOptions p = o.quick ? plan::quick_profile() : plan::ProfileOptions{};
  if (o.seconds) p.seconds = *o.seconds;
  const Cores cores = find_cores(world.group());
  p.threads = o.threads > 0 ? o.threads : static_cast<int>(cores.rank_cores);
  p.node_cores = cores.node_cores;
  p.offload_folder = offload_folder(o);
  if (!o.products.empty()) p.products.clear();
  for (const std::string& text : o.products) p.products.push_back(product_shape(text));
  return p;
}

void describe_origin(plan::Origin& origin, double seconds) {
  origin.date = utc_now();
  origin.seconds = std::round(seconds);
  origin.hexad = version;
  origin.processor = processor_name();
  origin.instructions = kernels::cpu::name_of(kernels::cpu::machine_isa());
  origin.products = kernels::cpu::products_description();
  origin.cores = usable_cores();
}

constexpr std::string_view first_line = "# Measured by hexad profile";

ExitCode profile(const ProfileArguments& o, const comm::World& world) {
  const plan::ProfileOptions options = profile_options(o, world);
  const bool first = world.rank() == 0;
  const auto say = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  if (first)
    say(fmt::format("profile of {} rank{} on {} node{}, about {}", world.size(), world.size() == 1 ? "" : "s",
                    world.topology().node_names.size(), world.topology().node_names.size() == 1 ? "" : "s",
                    base::human_duration(options.seconds)));
  std::optional<base::AtomicFile> file;  // opened now, so that a missing folder is reported before the measurement
  if (first) {
    require_replaceable(o.out, first_line, "profile");
    file.emplace(o.out);
  }
  const auto begin = std::chrono::steady_clock::now();
  plan::Cluster cluster = plan::measure(world.group(), options, say);
  if (!first) return ExitCode::done;
  describe_origin(cluster.measured, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const std::string text = base::cat(first_line, "; docs/profile.md explains it.\n", plan::to_yaml(cluster));
  file->append(text.data(), text.size());
  file->commit();
  say(base::cat("\n", plan::profile_table(cluster)));
  say(fmt::format("written to {} after {}", o.out, base::human_duration(cluster.measured.seconds)));
  return ExitCode::done;
}

}  // namespace

void add_profile(const Program& program) {
  const Command command = program.root.add_command(
      "profile", "Measure links and kernels, and how much they slow each other down; alone or under mpirun");
  auto options = std::make_shared<ProfileArguments>();
  command.add_option("--out", &options->out, "YAML file to write").path();
  command.add_flag("--quick", options->quick, "measure only a few sizes, for about ten seconds");
  command
      .add_option("--seconds", &options->seconds,
                  "approximate seconds of the measurement; default: 120, or 10 with --quick")
      .legal(number_above(0));
  command
      .add_option("--threads", &options->threads, "kernel threads of a rank; 0: the rank's share of the node's cores")
      .legal(whole_number(0, 4096));
  command.add_option(
      "--product", &options->products,
      "shape of a grouped product, EXPERTSxINPUTSxOUTPUTS, to measure instead of the usual shapes; may be "
      "given several times");
  command.add_option("--offload-folder", &options->offload_folder, "folder to which offloaded tensors are written");
  command.run(
      [program, options] { return on_all_ranks([&](comm::World& world) { return profile(*options, world); }); });
}

}  // namespace hexad::app
