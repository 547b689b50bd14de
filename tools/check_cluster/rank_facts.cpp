#include "tools/check_cluster/measurements.h"

#include <sched.h>
#include <sys/utsname.h>

#include <fstream>
#include <set>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/device/card_memory.h"
#include "framework/device/context.h"
#include "tools/check_cluster/programs.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/machine.h"
#include "tools/train/process/machine_memory.h"

namespace hexad::check_cluster {
namespace {

std::vector<int> own_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  // Returns no cores if the machine has more cores than a cpu_set_t can hold, because sched_getaffinity() then fails.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  return cores;
}

std::string kernel_release() {
  utsname names{};
  return uname(&names) == 0 ? names.release : "unknown";
}

// Returns the file names of the libraries that this process has loaded. Symbolic links are resolved, so most names
// contain the full version, as in libmpi.so.40.30.4.
std::vector<std::string> loaded_libraries() {
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.rfind('/');
    if (slash == std::string::npos) continue;
    const std::string name = line.substr(slash + 1);
    if (name.ends_with(".so") || name.find(".so.") != std::string::npos) names.insert(name);
  }
  return {names.begin(), names.end()};
}

void find_card(RankFacts& facts, int place) {
  try {
    const device::CardMemory memory = device::cuda_card_memory(place);
    for (const char byte : memory.id) facts.card_id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    facts.card_memory = memory.available;
    device::ContextOptions options;
    options.kind = device::DeviceKind::cuda;
    options.place = place;
    facts.card = device::DeviceContext(options).description();
  } catch (const base::Error& e) {
    facts.card_error = e.what();
    facts.card_exit_code = static_cast<int>(e.code());
  }
}

}  // namespace

RankFacts collect_facts(const std::string& host, int place, int threads) {
  RankFacts facts;
  facts.host = host;
  facts.cores = own_cores();
  for (const int core : facts.cores)
    if (const auto first = static_cast<int>(train::core_of(core, "/sys/devices/system/cpu")); first != core)
      facts.hyperthreads[core] = first;
  facts.core_quota = train::control_group_quota("/proc/self/cgroup", "/sys/fs/cgroup").value_or(0);
  facts.threads = threads;
  const Program program = own_program();
  facts.version = program.version;
  facts.binary = program.digest;
  facts.processor = train::processor_name();
  facts.kernel = kernel_release();
  facts.memory_available = train::available_memory_bytes();
  // Lists the libraries before the GPU is opened. Opening a GPU loads libraries that a run without a GPU does not load.
  facts.libraries = loaded_libraries();
  find_card(facts, place);
  return facts;
}

}  // namespace hexad::check_cluster
