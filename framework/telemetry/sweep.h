// Comparison of runs: their different settings and their results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/telemetry/run_summary.h"

namespace hexad::telemetry {

struct SweepRun {
  std::string name;
  std::string folder;                                // the run directory
  int64_t ranks = 0;                                 // 0: unknown
  std::string layout = {};                           // "pp 1 x dp 2 ..."
  std::string state = {};                            // "finished", "failed", ...; empty: unknown
  std::string trouble = {};                          // reason why the run is not finished; empty if it is finished
  std::map<std::string, std::string> settings = {};  // by key of the recipe, without keys that it lacks
  std::vector<std::string> differences = {};         // from the first run's recipe: "optim.lr: 0.01 -> 0.03"
  RunSummary summary = {};
  std::string columns = "{}";  // report_data() of its metrics, for the charts
};

struct Sweep {
  std::vector<SweepRun> runs;
  std::vector<std::string> keys = {};  // keys whose settings differ, in the recipe's order
};

/// Returns the settings that differ, in one line: "optim.lr: 0.01, 0.03", "12 runs: parallel.ep, parallel.tp", "3 runs
/// of one recipe". If there is only one run, returns its name.
std::string title_of(const Sweep& sweep);

/// Returns model FLOP/s per rank, relative to the first run: 1 is equal speed. NaN if either run has no such
/// measurement.
double efficiency(const Sweep& sweep, size_t run);

/// Returns the classes of traffic of all runs, in the order in which reports show them.
std::vector<std::string> traffic_classes(const Sweep& sweep);

/// Returns a line per run, with a header. Unknown values are empty. The format is RFC 4180, except that lines end in
/// '\n'.
std::string csv_of(const Sweep& sweep);

/// Returns one JSON object with the same figures. `page` is the file that shows them. Unknown values are null.
std::string json_of(const Sweep& sweep, const std::string& page);

}  // namespace hexad::telemetry
