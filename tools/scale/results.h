// Results of an experiment: measured points, their predictions, speed-ups and losses.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/scale/measurement.h"
#include "tools/scale/point_forecast.h"

namespace hexad::scale {

/// Seconds by which a step takes longer than in the ideal case, by reason. The ideal time is T * W / R: T is the step
/// time of the point with the fewest ranks, W is the growth of the work, and R is the growth of the ranks. `ideal` and
/// the losses add up to the step. A loss is negative if the point is better than the ideal in this respect.
struct Losses {
  double ideal = 0;
  double work = 0;       // smaller products, work repeated on several ranks, contention for the machine
  double imbalance = 0;  // waiting for the rank that works longest
  std::map<std::string, double> waiting{};  // communication by class of traffic; pp includes the bubble

  double total() const;
};

struct ResultRow {
  std::string point;
  int64_t ranks = 0;
  std::vector<std::string> values{};  // values of the axes
  PointForecast forecast{};
  int64_t beside = 0;        // largest number of other runs that executed at the same time as a run of this point
  int64_t shared_cores = 0;  // number of cores that the ranks of a run shared; 0: no core was shared, or unknown
  int64_t failed = 0;        // number of failed runs
  std::string reason{};      // reason of the last failure
  std::optional<PointMeasurement> measured{};  // none: no finished run has usable metrics
  // Relative to the row with the same values and the fewest ranks; none if that row or this row is not measured.
  std::optional<double> speedup{}, efficiency{};
  std::optional<Losses> losses{};
};

struct Results {
  std::string title;                // path of the experiment
  std::vector<std::string> axes{};  // names of the axes
  std::vector<ResultRow> rows{};
  std::map<std::string, int64_t> programs{};  // number of measured runs by program
  std::vector<std::string> damaged{};         // finished runs that were left out, each with the reason and the remedy
};

/// Returns the losses of `point` relative to `first`. `growth` is the ratio of their numbers of ranks.
Losses losses_of(const PointMeasurement& point, const PointMeasurement& first, double growth);

/// Sets speed-ups, efficiencies and losses of all rows. Speed is the work of the model per second.
void compare_with_first(Results& results);

/// Returns a sentence about runs that executed at the same time; empty if there were none.
std::string concurrent_runs_text(const Results& results);

/// Returns the state of a point without measurement, for tables: "not run" or "failed: REASON".
std::string state_of_unmeasured(const ResultRow& row);
/// Returns lines about failed runs of measured points; empty if there are none.
std::string failed_runs_text(const Results& results);

/// Returns lines about damaged runs, which were left out; empty if there are none.
std::string damaged_runs_text(const Results& results);

/// Returns lines about the programs of the runs; empty if all runs have the same program.
std::string programs_text(const Results& results);

/// Returns the number of ranks of a row, for tables: "4", or "4 (ranks > cores)" if ranks shared cores.
std::string ranks_text(const ResultRow& row);

/// Returns the classes of traffic that occur in the measurement of any row.
std::vector<std::string> classes_of(const Results& results);

/// Return the table: csv_of() as CSV (RFC 4180 with '\n'), json_of() as JSON, and markdown_of() as Markdown for a
/// paper. Unknown values are empty or null.
std::string csv_of(const Results& results);
std::string json_of(const Results& results);
std::string markdown_of(const Results& results);

}  // namespace hexad::scale
