#include <cstdio>
#include <memory>
#include <optional>

#include <fmt/core.h>

#include "framework/base/atomic_file.h"
#include "framework/device/context.h"
#include "tools/check_cluster/check.h"
#include "tools/check_cluster/figures_json.h"
#include "tools/check_cluster/figures_text.h"
#include "tools/check_cluster/findings.h"
#include "tools/check_cluster/links_svg.h"
#include "tools/check_cluster/programs.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/commands/user_file.h"
#include "tools/hexad/usage.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/machine.h"

namespace hexad::app {
namespace {

using base::ExitCode;
using namespace check_cluster;

struct CheckArguments {
  double seconds = CheckOptions{}.seconds, patience = CheckOptions{}.patience, memory_gib = 0;
  int threads = 0;
  std::string folder, svg, device = "cpu";
  bool json = false;
};

constexpr double least_seconds = 0.1, max_seconds = 3600;  // limits of --seconds and --patience
constexpr double watchdog_seconds = 60;                    // a hang is reported after this time plus --patience

CheckOptions check_options(const CheckArguments& o, const comm::World& world) {
  CheckOptions c;
  c.seconds = o.seconds;
  c.folder = o.folder;
  c.patience = o.patience;
  c.card = o.device == "cuda";
  const auto share = static_cast<int>(train::find_cores(world.group()).rank_cores);
  c.threads = o.threads > 0 ? o.threads : share;
  c.host = world.node_name();
  if (c.host.empty()) c.host = train::host_name();
  c.place = world.local_rank();
  return c;
}

void print_results(const std::vector<RankReport>& ranks, const std::vector<Finding>& findings, bool json) {
  if (json)
    fmt::print("{}\n", results_json(ranks, findings));
  else
    fmt::print("{}{}", ranks.empty() ? "" : figures_table(ranks) + "\n", findings_list(findings));
  std::fflush(stdout);  // the launcher may end the job when the first rank exits with an error
}

// Ends the check before the first measurement if the ranks run different programs, because their later messages may
// differ.
void require_one_program(const CheckArguments& o, const comm::World& world) {
  if (world.size() == 1) return;
  device::DeviceContext host;
  const std::vector<Finding> findings = compare_programs(own_program(), world.group(), host);
  if (findings.empty()) return;
  if (world.rank() == 0) print_results({}, findings, o.json);
  base::fail(findings.front().code, findings.front().message,
             "; nothing was measured; start the same program on all ranks");
}

ExitCode check(const CheckArguments& o, const comm::World& world) {
  require_one_program(o, world);
  const bool first = world.rank() == 0;
  std::optional<base::AtomicFile> svg;  // opened now, so that a missing folder is reported before the measurement
  if (first && !o.svg.empty()) {
    require_replaceable(o.svg, "<svg", "picture");
    svg.emplace(o.svg);
  }
  const std::vector<RankReport> ranks = measure_cluster(world.group(), check_options(o, world));
  ExitCode code = ExitCode::done;
  if (first) {
    const Expectations expected{.card = o.device == "cuda", .memory_bytes = o.memory_gib * (1 << 30)};
    const std::vector<Finding> findings = judge(ranks, expected);
    code = exit_code_of(findings);
    print_results(ranks, findings, o.json);
    if (svg) {
      const std::string picture = links_svg(ranks);
      svg->append(picture.data(), picture.size());
      svg->commit();
    }
  }
  device::DeviceContext host;
  return static_cast<ExitCode>(
      static_cast<int>(world.group().all_reduce_value(static_cast<int>(code), comm::Reduce::max, host)));
}

}  // namespace

void add_check_cluster(const Program& program) {
  const Command command = program.root.add_command(
      "check-cluster", "Find slow ranks, links and disks, and faults that would end a run; under mpirun or srun");
  auto options = std::make_shared<CheckArguments>();
  command
      .add_option("--folder", &options->folder,
                  "folder that all nodes share, such as the folder of the runs; default: check no folder")
      .path();
  command
      .add_option("--svg", &options->svg,
                  "SVG file to write: bandwidth and latency between all pairs of nodes or ranks")
      .path();
  command.add_flag("--json", options->json, "print all figures and findings as JSON");
  command
      .add_option("--seconds", &options->seconds,
                  "approximate seconds of the measurements, without the check of the folder")
      .legal(number(least_seconds, max_seconds));
  command
      .add_option("--patience", &options->patience,
                  "seconds after which a file that another node has written counts as missing")
      .legal(number(least_seconds, max_seconds));
  command
      .add_option("--threads", &options->threads, "kernel threads of a rank; 0: the rank's share of the node's cores")
      .legal(whole_number(0, 4096));
  command.add_option("--device", &options->device, "device of the planned runs; cuda: every rank needs a GPU")
      .legal(one_of({"cpu", "cuda"}));
  command
      .add_option("--memory", &options->memory_gib,
                  "GiB of memory that each rank of the planned runs needs (with --device cuda: GPU memory); 0: unknown")
      .legal(number(0));
  command.run([options] {
    comm::CommEngine::Options engine;
    // A rank may wait for a file for options->patience, while all other ranks wait for this rank.
    engine.guards.watchdog_seconds = watchdog_seconds + options->patience;
    return on_all_ranks([&](comm::World& world) { return check(*options, world); }, engine);
  });
}

}  // namespace hexad::app
