// Cores or nodes for runs of an experiment that execute at the same time. Each run has separate cores or nodes, so that
// the run takes as long as it would take alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/scale/point_forecast.h"
#include "tools/scale/points.h"

namespace hexad::scale {

/// Places for runs.
///   - cores: cores of this machine, each given by the processors of the core, such as "0" or "0,4"
///   - nodes: nodes of a Slurm allocation, given by their names
struct Room {
  enum class Kind : uint8_t { cores, nodes };
  Kind kind = Kind::cores;
  std::vector<std::string> places{};
  int64_t memory_bytes = 0;  // memory that all runs share; 0: each place has separate memory
};

/// Returns the room of this process: the nodes of its Slurm allocation or, outside of an allocation, the cores on which
/// it may run.
Room room_here();

/// Returns the number of cores of this machine that this process may use.
int64_t cores_here();
/// Returns `cores`, the number of cores of a machine, if a machine has more ranks of the point than cores; otherwise 0.
/// Also returns 0 if the point has its own launcher, because its machines are unknown.
int64_t shared_cores(const Point& point, int64_t cores);

/// Returns the number of places that a run of the point takes.
int64_t places_of(const LoadedPoint& point, Room::Kind kind);

/// Returns the reason why at_once runs of these points cannot execute at the same time; empty if they can. The text is
/// the end of a sentence about the key at_once. Cores and nodes must suffice for two runs, and memory for at_once runs.
/// Runs must not share cores, GPUs, memory that they need, or links of a node.
std::string problem_of_room(const ExperimentConfig& config, const std::vector<LoadedPoint>& points,
                            const std::vector<PointForecast>& forecasts, const Room& room);

/// Free and taken places of a room.
class Places {
 public:
  explicit Places(std::vector<std::string> places);

  /// Takes the first `count` free places. Returns none, and takes nothing, if there are fewer.
  std::optional<std::vector<std::string>> take(int64_t count);
  /// Makes these places free again.
  void give_back(const std::vector<std::string>& taken);

 private:
  std::vector<std::string> places_;
  std::set<size_t> free_;  // indices of free places
};

/// Returns the words of a command that starts the ranks of a point if no other run executes. The command is the point's
/// launcher if the point has one. Otherwise, the command is mpirun without binding to cores, or srun on the nodes that
/// the point needs.
std::vector<std::string> launcher_alone(const Point& point);
/// Returns the words of a command that starts `ranks` ranks on these places only.
std::vector<std::string> launcher_on(Room::Kind kind, const std::vector<std::string>& places, int64_t ranks);

/// Returns the hosts of a list in Slurm's format: "n[0-2,07],login" has n0, n1, n2, n07 and login.
std::vector<std::string> hosts_of(std::string_view list);
/// Divides processors into cores. `folder` has the files of Linux's /sys/devices/system/cpu, which name the processors
/// of a core. A processor without a file counts as a separate core.
std::vector<std::string> cores_of(const std::vector<int64_t>& processors, const std::filesystem::path& folder);

}  // namespace hexad::scale
