// Comparison of runs: the settings that differ, and the results.
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
  int64_t ranks = 0;                                 // number of ranks; 0: unknown
  std::string layout = {};                           // text like "2 ranks: pp 1 x dp 2 ..."; empty: unknown
  std::string state = {};                            // text like "finished" or "failed"; empty: unknown
  std::string trouble = {};                          // reason why the run is not finished; empty if it is finished or
                                                     // its state is unknown
  std::map<std::string, std::string> settings = {};  // values of the keys in Sweep::keys that the run's recipe has,
                                                     // by key
  std::vector<std::string> differences = {};         // differences from the first run's recipe, such as "optim.lr: 0.01
                                                     // -> 0.03"
  RunSummary summary = {};
  std::string columns = "{}";  // report_data() of the run's metrics, for the charts
};

struct Sweep {
  std::vector<SweepRun> runs;
  std::vector<std::string> keys = {};  // recipe keys whose values differ between runs, in the order of the recipe
};

/// Returns one line about the settings that differ, for example "optim.lr: 0.01, 0.03", "12 runs: parallel.ep,
/// parallel.tp" or "3 runs of one recipe". Returns the name of the run if there is only one run.
std::string title_of(const Sweep& sweep);

/// Returns a run's model FLOP/s per rank, divided by the model FLOP/s per rank of the first run; NaN if either value is
/// unknown.
double efficiency(const Sweep& sweep, size_t run);

/// Returns the classes of traffic that sent bytes in any run, in the order in which reports show them.
std::vector<std::string> traffic_classes(const Sweep& sweep);

/// Returns a table with a header and one line for each run. Unknown values are empty, except that an unknown peak of
/// memory is 0. The format follows RFC 4180, except that lines end in '\n'.
std::string csv_of(const Sweep& sweep);

/// Returns a JSON object with the values of csv_of(), the title, and the trouble of each run. `page` is the path of the
/// page that shows the comparison. Unknown values are null, except that an unknown layout is empty and an unknown peak
/// of memory is 0.
std::string json_of(const Sweep& sweep, const std::string& page);

}  // namespace hexad::telemetry
