#include "tools/train/process/job_launcher.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/base/units.h"
#include "parallel/comm/launcher.h"
#include "tools/train/process/machine.h"

namespace hexad::train {
namespace {

// Safety factor for estimated times.
constexpr double margin = 1.5;

std::string value_of(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// Returns the number of processors in the Slurm allocation; 0: unknown. The text "2(x3),4" means 10: two on each of
// three nodes, and four on another node.
int64_t allocated_cores() {
  const std::string text = value_of("SLURM_JOB_CPUS_PER_NODE");
  int64_t cores = 0;
  for (const char* at = text.c_str(); *at;) {
    char* end = nullptr;
    const long of_node = std::strtol(at, &end, 10);
    if (end == at) return 0;
    const bool repeated = std::string_view(end).starts_with("(x");
    cores += of_node * (repeated ? std::strtol(end + 2, &end, 10) : 1);
    at = end + std::min(std::string_view(end).find_first_of("0123456789"), std::string_view(end).size());
  }
  return cores;
}

int64_t cores_of_task() { return std::max<int64_t>(1, std::atoll(value_of("SLURM_CPUS_PER_TASK").c_str())); }

std::string srun(int64_t ranks) {
  std::string text = base::cat(comm::srun_line(), " -n ", ranks);
  const std::string cores_of_rank = value_of("SLURM_CPUS_PER_TASK");  // srun does not inherit this option from sbatch
  if (!cores_of_rank.empty()) text += " --cpus-per-task=" + cores_of_rank;
  const int64_t cores = allocated_cores();
  if (cores > 0 && ranks * cores_of_task() > cores) text += " --overcommit";
  return text;
}

bool has_open_mpi() { return comm::mpi_library().family == comm::MpiFamily::open_mpi; }

std::string mpiexec(int64_t ranks) {
  std::string text = base::cat(comm::mpiexec_name(), " -np ", ranks);
  if (!has_open_mpi()) return text;  // Hydra needs no flag to start as root, or to start more ranks than cores
  if (::geteuid() == 0) text += " --allow-run-as-root";
  if (ranks > usable_cores()) text += " --oversubscribe";
  return text;
}

// Returns the parent of a process, from /proc/PID/stat: "PID (name) state parent ...". Returns 0 if the parent is
// unknown.
pid_t parent_of(pid_t process) {
  std::ifstream in(base::cat("/proc/", process, "/stat"));
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(") ");
  return name_end == line.npos ? 0 : std::atoi(line.c_str() + std::min(name_end + 4, line.size()));
}

}  // namespace

bool in_slurm_allocation() { return std::getenv("SLURM_JOB_ID") != nullptr; }

int64_t allocated_ranks() {
  if (!in_slurm_allocation()) return 0;
  const int64_t tasks = std::atoll(value_of("SLURM_NTASKS").c_str());
  return tasks > 0 ? tasks : allocated_cores() / cores_of_task();
}

std::string launcher(int64_t ranks) { return in_slurm_allocation() ? srun(ranks) : mpiexec(ranks); }

pid_t mpirun_process() {
  // mpirun makes each of its children the leader of a process group. The leader is this process, or a script that
  // started this process.
  return comm::started_by_mpirun() ? parent_of(::getpgrp()) : 0;
}

std::optional<double> mpirun_patience() {
  if (!comm::started_by_mpirun()) return std::nullopt;
  const std::string text = value_of(patience_variable);
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? 1 : seconds;  // Open MPI's default is 1 s
}

int64_t advised_patience(double seconds) {
  // Returns a round number, so that the advice does not change with every measurement.
  for (const int64_t advice : {5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800})
    if (margin * seconds + 2 <= static_cast<double>(advice)) return advice;
  return 3600;
}

std::string launcher_to_train(int64_t ranks, double save_seconds) {
  std::string text = launcher(ranks);
  if (!in_slurm_allocation() && has_open_mpi())
    text += fmt::format(" --mca {} {}", patience_parameter, advised_patience(save_seconds));
  return text;
}

std::string explain_launcher() {
  if (in_slurm_allocation()) return "  the run saves before the time limit if sbatch gets --signal=USR1@SECONDS";
  if (!has_open_mpi())
    return fmt::format("  Ctrl-C, SIGTERM or SIGUSR1 to {} saves the run; a second Ctrl-C kills the ranks",
                       comm::mpiexec_name());
  return fmt::format(
      "  {}, or {} in the environment: seconds for a save, from mpirun's SIGTERM (Ctrl-C) to its SIGKILL",
      patience_parameter, patience_variable);
}

std::string warn_of_short_patience(double step_seconds, double save_seconds) {
  const std::optional<double> patience = mpirun_patience();
  const double seconds = step_seconds + save_seconds;
  if (!patience || margin * seconds <= *patience) return {};
  return fmt::format(
      "{} about {}, but mpirun kills the ranks {:g} s after its SIGTERM (Ctrl-C), saved or not: `export {}={}` before "
      "the start gives them enough time; after SIGUSR1 to mpirun, the run stops once it has saved",
      step_seconds > 0 ? "a step and a save take" : "a save takes", base::human_duration(seconds), *patience,
      patience_variable, advised_patience(seconds));
}

}  // namespace hexad::train
