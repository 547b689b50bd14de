#include "tools/scale/room.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "parallel/comm/mpi_library.h"
#include "tools/scale/child_process.h"
#include "tools/train/process/cores.h"
#include "tools/train/process/job_launcher.h"
#include "tools/train/process/machine_memory.h"

namespace hexad::scale {
namespace {

using base::cat;

// Returns the processors on which this process may run.
std::vector<int64_t> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails if the machine has more processors than a cpu_set_t can hold. The room then has no places.
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};
  std::vector<int64_t> processors;
  for (size_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(static_cast<int64_t>(i));
  return processors;
}

// Returns the numbers of a range such as "7" or "08-11", padded with zeros to the length of the first number.
std::vector<std::string> numbers_of(const std::string& range) {
  const size_t dash = range.find('-');
  const std::string first = range.substr(0, dash), last = dash == range.npos ? first : range.substr(dash + 1);
  std::vector<std::string> out;
  for (int64_t i = std::atoll(first.c_str()); i <= std::atoll(last.c_str()); ++i)
    out.push_back(fmt::format("{:0{}}", i, first.size()));
  return out;
}

// Divides the text at commas outside of brackets.
std::vector<std::string> elements_of(std::string_view list) {
  std::vector<std::string> out(1);
  int depth = 0;
  for (const char c : list) {
    if (c == '[') ++depth;
    if (c == ']') --depth;
    if (c == ',' && depth == 0)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

// Appends the hosts of one element, such as "rack[1-2]n[0-3]".
void add_hosts(const std::string& element, std::vector<std::string>& hosts) {
  const size_t open = element.find('['), close = element.find(']', open);
  if (open == element.npos || close == element.npos) {
    if (!element.empty()) hosts.push_back(element);
    return;
  }
  for (const std::string& range : elements_of(element.substr(open + 1, close - open - 1)))
    for (const std::string& number : numbers_of(range))
      add_hosts(element.substr(0, open) + number + element.substr(close + 1), hosts);
}

int64_t threads_of(const LoadedPoint& point) { return point.recipe.train.threads.value_or(1); }

// Returns the reason why a point cannot run together with other runs on this machine; empty if there is none.
std::string sharing_on_this_machine(const LoadedPoint& point) {
  if (!point.recipe.train.threads)
    return cat(
        "needs a number of threads for each rank (train.threads), because each run has separate cores; "
        "train.threads is auto in point ",
        point.point.name);
  if (point.recipe.device == device::DeviceKind::cuda)
    return "cannot be more than 1 outside of a Slurm allocation if device is cuda, because runs would share GPUs";
  if (const int64_t nodes = nodes_of(point.point); nodes > 1)
    return cat(
        "cannot be more than 1 outside of a Slurm allocation if a point uses several nodes, because runs would share "
        "the links of the ",
        nodes, " nodes of point ", point.point.name);
  return {};
}

// Returns a problem if the runs that need the most memory do not fit together; otherwise an empty text.
std::string lack_of_memory(const ExperimentConfig& config, const std::vector<LoadedPoint>& points,
                           const std::vector<PointForecast>& forecasts, int64_t memory_bytes) {
  std::vector<double> needs;
  for (size_t i = 0; i < points.size(); ++i)
    needs.push_back(forecasts[i].memory_bytes * static_cast<double>(points[i].point.ranks));
  std::ranges::sort(needs, std::greater<>());
  const int64_t most = std::min<int64_t>(std::ssize(needs), config.at_once);
  const double sum = std::accumulate(needs.begin(), needs.begin() + most, 0.0);
  if (sum <= static_cast<double>(memory_bytes)) return {};
  return cat("is too high: the tensors of the largest ", base::counted(most, "point"), " need ", base::human_bytes(sum),
             " together, but this machine has ", base::human_bytes(static_cast<double>(memory_bytes)), " available");
}

// Returns the words of the default launcher, without binding to cores. With at most two ranks, Open MPI by default
// binds each rank to one core. The threads of a rank would then share this core. Open MPI also binds the first ranks of
// simultaneous runs to the same cores. MPICH's launcher (Hydra) does not bind ranks.
std::vector<std::string> unbound_launcher(int64_t ranks) {
  std::vector<std::string> words = words_of(train::launcher(ranks));
  if (!train::in_slurm_allocation() && comm::mpi_library().family == comm::MpiFamily::open_mpi)
    words.insert(words.end(), {"--bind-to", "none"});
  return words;
}

}  // namespace

Room room_here() {
  if (train::in_slurm_allocation()) {
    const char* list = std::getenv("SLURM_JOB_NODELIST");
    return {.kind = Room::Kind::nodes, .places = hosts_of(list ? list : ""), .memory_bytes = 0};
  }
  Room room{.kind = Room::Kind::cores,
            .places = cores_of(own_processors(), "/sys/devices/system/cpu"),
            .memory_bytes = train::available_memory_bytes()};
  const int64_t most = cores_here();  // a control group may allow fewer cores
  if (most < std::ssize(room.places)) room.places.erase(room.places.begin() + most, room.places.end());
  return room;
}

int64_t cores_here() { return train::find_cores().rank_cores; }

int64_t shared_cores(const Point& point, int64_t cores) {
  const int64_t ranks = point.ranks_per_node > 0 ? std::min(point.ranks, point.ranks_per_node) : point.ranks;
  return point.launcher.empty() && ranks > cores ? cores : 0;
}

int64_t places_of(const LoadedPoint& point, Room::Kind kind) {
  if (kind == Room::Kind::nodes) return nodes_of(point.point);
  return point.point.ranks * threads_of(point);
}

std::string problem_of_room(const ExperimentConfig& config, const std::vector<LoadedPoint>& points,
                            const std::vector<PointForecast>& forecasts, const Room& room) {
  if (!config.launcher.empty())
    return "cannot be more than 1 with a launcher of the experiment, because the cores and links that the "
           "launcher uses are unknown";
  const bool nodes = room.kind == Room::Kind::nodes;
  if (nodes && std::ranges::any_of(points, [](const LoadedPoint& p) { return p.point.ranks_per_node == 0; }))
    return "needs ranks_per_node or a cluster file, because each run has separate nodes";
  const std::string unit = nodes ? "node" : "core";
  std::vector<int64_t> needs;
  for (const LoadedPoint& point : points) {
    if (std::string problem = nodes ? std::string() : sharing_on_this_machine(point); !problem.empty()) return problem;
    needs.push_back(places_of(point, room.kind));
    if (needs.back() > std::ssize(room.places))
      return cat("cannot be more than 1: point ", point.point.name, " needs ", base::counted(needs.back(), unit),
                 ", but there are ", room.places.size(), ", so its ranks would share them");
  }
  if (needs.size() < 2) return "is more than 1, but there is only one point, whose runs never execute at the same time";
  std::ranges::sort(needs);
  if (needs[0] + needs[1] > std::ssize(room.places))
    return cat("cannot be more than 1: the smallest points need ", needs[0], " and ", base::counted(needs[1], unit),
               ", but there are only ", room.places.size(), ", so runs would share them");
  return nodes ? std::string() : lack_of_memory(config, points, forecasts, room.memory_bytes);
}

Places::Places(std::vector<std::string> places) : places_(std::move(places)) {
  for (size_t i = 0; i < places_.size(); ++i) free_.insert(i);
}

std::optional<std::vector<std::string>> Places::take(int64_t count) {
  if (count > std::ssize(free_)) return std::nullopt;
  std::vector<std::string> taken;
  for (; count > 0; --count) {
    taken.push_back(places_[*free_.begin()]);
    free_.erase(free_.begin());
  }
  return taken;
}

void Places::give_back(const std::vector<std::string>& taken) {
  for (size_t i = 0; i < places_.size(); ++i)
    if (std::ranges::find(taken, places_[i]) != taken.end()) free_.insert(i);
}

std::vector<std::string> launcher_alone(const Point& point) {
  if (!point.launcher.empty()) return words_of(point.launcher);
  std::vector<std::string> words = unbound_launcher(point.ranks);
  // Without a number of nodes, srun would spread the ranks over all nodes of the allocation.
  if (train::in_slurm_allocation() && point.ranks_per_node > 0)
    words.insert(words.end(), {"-N", std::to_string(nodes_of(point))});
  return words;
}

std::vector<std::string> launcher_on(Room::Kind kind, const std::vector<std::string>& places, int64_t ranks) {
  std::vector<std::string> words = unbound_launcher(ranks);
  const std::string list = fmt::format("{}", fmt::join(places, ","));
  if (kind == Room::Kind::nodes) {
    words.insert(words.end(), {"-N", std::to_string(places.size()), cat("--nodelist=", list)});
    return words;
  }
  words.insert(words.begin(), {"taskset", "-c", list});
  return words;
}

std::vector<std::string> hosts_of(std::string_view list) {
  std::vector<std::string> hosts;
  for (const std::string& element : elements_of(list)) add_hosts(element, hosts);
  return hosts;
}

std::vector<std::string> cores_of(const std::vector<int64_t>& processors, const std::filesystem::path& folder) {
  std::vector<std::string> cores;
  std::map<int64_t, size_t> by_first;  // index of the core, by its first processor
  for (const int64_t processor : processors) {
    const auto [found, is_new] = by_first.emplace(train::core_of(processor, folder), cores.size());
    if (is_new)
      cores.push_back(std::to_string(processor));
    else
      cores[found->second] += cat(",", processor);
  }
  return cores;
}

}  // namespace hexad::scale
