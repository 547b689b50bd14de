// Measured values of the ranks, as plain data. Durations are in seconds, sizes in bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hexad::check_cluster {

/// State of a GPU as its driver reports it. Numbers that the driver does not report are nullopt.
struct CardState {
  std::string driver{};                         // version of the driver; empty if it is unknown
  std::optional<int64_t> uncorrected_errors{};  // uncorrected ECC errors since the driver was loaded
  std::optional<int64_t> throttle_reasons{};    // bit set of NVML's reasons for a reduced clock
  std::optional<int> temperature{};             // degrees Celsius
  std::optional<int> clock{}, highest_clock{};  // clock rates of the multiprocessors in MHz: current, highest
};

/// Facts about a rank's process and machine, collected without communication.
struct RankFacts {
  std::string host{};                    // name of the node
  std::vector<int> cores{};              // processors (Linux: CPUs) on which the process may run, ascending
  std::map<int, int> hyperthreads{};     // maps the second and later processors of a core to its first
  double core_quota = 0;                 // cores of CPU time that the control group allows; 0: no limit
  int threads = 1;                       // number of threads that the kernels use
  std::string version{};                 // version of hexad
  std::string binary{};                  // digest of the program's file
  std::string processor{};               // name of the processor and its number of cores
  std::string kernel{};                  // release of the operating system's kernel
  std::vector<std::string> libraries{};  // file names of loaded libraries, sorted; most contain the version
  int64_t memory_available = 0;          // bytes that the process may still allocate
  std::string card{};                    // description of the GPU; empty if there is none
  std::string card_id{};                 // identifier of the GPU
  CardState card_state{};                // state of the GPU, unknown if there is none
  int64_t card_memory = 0;               // bytes of the GPU's memory that no process has allocated
  std::string card_error{};              // reason why there is no GPU
  int card_exit_code = 0;                // exit code of a run that needs a GPU on this rank; 0 if there is a GPU
};

/// Measured message from this rank to another rank.
struct LinkFigure {
  int to = 0;
  double latency = 0;  // half the round trip of eight bytes
  double seconds = 0;  // time of one message of `bytes`
  int64_t bytes = 0;
  double rate() const { return static_cast<double>(bytes) / seconds; }
};

/// One measured collective of a group that contains this rank.
struct CollectiveFigure {
  std::string operation{};  // name, such as all_reduce
  std::string group{};      // intra, inter or all
  int first = 0;            // lowest rank of the group
  int ranks = 0;
  double seconds = 0;
};

/// Behaviour of the shared folder as this rank observes it.
struct FolderFigure {
  std::string error{};         // reason why the folder cannot be used; empty if it can
  double write_seconds = 0;    // time to write and fsync a file of 1 MiB
  double rename_seconds = 0;   // time to rename a file and fsync its folder
  double late_seconds = 0;     // longest time until a new file of another rank became visible
  double stale_seconds = 0;    // longest time until a replaced file of another rank showed its new contents
  std::vector<int> missing{};  // ranks whose new file did not become visible in time
  std::vector<int> stale{};    // ranks whose replaced file did not change in time
  std::vector<int> torn{};     // ranks whose file had neither its old nor its new contents
  bool lock_ignored = false;   // true if this rank obtained the lock after rank 0 had requested it
  std::string lock_error{};    // unexpected error of this rank's flock(); empty if there is none
  int64_t free_bytes = 0;
};

/// All figures of one rank.
struct RankReport {
  int rank = 0, node = 0;
  RankFacts facts{};
  double product_rate = 0;       // FLOP/s
  double copy_rate = 0;          // bytes read and written per second
  double card_product_rate = 0;  // FLOP/s of bf16 products on the GPU; 0 if they were not measured
  std::vector<LinkFigure> links{};
  std::vector<int> damaged_from{};  // ranks whose messages arrived with changed contents
  std::vector<CollectiveFigure> collectives{};
  std::optional<double> clock_offset{};  // clock of this node minus clock of rank 0's node; nullopt: not compared
  double clock_error = 0;                // uncertainty of clock_offset
  std::optional<FolderFigure> folder{};  // set only on ranks that checked the folder
};

}  // namespace hexad::check_cluster
