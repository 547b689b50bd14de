// Comparison of runs: their different settings, and their results.
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
  std::map<std::string, std::string> settings = {};  // by key of the recipe; a key that it lacks is left out
  std::vector<std::string> differences = {};         // of its recipe from the first run's: "optim.lr: 0.01 -> 0.03"
  RunSummary summary = {};
  std::string columns = "{}";  // report_data() of its metrics: what charts draw
};

struct Sweep {
  std::vector<SweepRun> runs;
  std::vector<std::string> keys = {};  // of the settings that differ, in the recipe's order
};

/// The settings that differ, in a line: "optim.lr: 0.01, 0.03", "12 runs: parallel.ep, parallel.tp", "3 runs of one
/// recipe". The name of the run where there is only one.
std::string title_of(const Sweep& sweep);

/// Model FLOP/s of a rank over those of the first run's: 1 is as fast a rank. NaN where a run lacks the figures.
double efficiency(const Sweep& sweep, size_t run);

/// The classes of traffic that any run has, in the order in which reports show them.
std::vector<std::string> traffic_classes(const Sweep& sweep);

/// A line a run, with a header; what is unknown is empty. RFC 4180, but lines end in '\n'.
std::string csv_of(const Sweep& sweep);

/// One JSON object with the same figures; `page`: the file that shows them. What is unknown is null.
std::string json_of(const Sweep& sweep, const std::string& page);

}  // namespace hexad::telemetry
