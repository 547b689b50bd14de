#include "tools/plan/expert_shares.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <optional>
#include <sstream>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/telemetry/metrics_json.h"

namespace hexad::plan {
namespace {

using base::ExitCode;
using base::fail;

// Loads of the experts of one layer, as read from the file.
struct Row {
  int64_t line;
  std::vector<double> loads;
};

double number_of(const std::string& word, const std::string& place) {
  size_t end = 0;
  double value = 0;
  try {
    value = std::stod(word, &end);
  } catch (const std::exception&) {  // the word is not a number, which the test below reports
  }
  if (end != word.size())
    fail(ExitCode::usage, place, ": '", word,
         "' is not a number; expected a number of tokens, or a share, for each expert");
  return value;
}

// Throws Error(usage) if no routing of the model can produce these loads.
void check(const Row& row, const moe::MoeConfig& moe, const std::string& path) {
  const std::string place = base::cat(path, ":", row.line, ": ");
  if (std::ssize(row.loads) != moe.experts)
    fail(ExitCode::usage, place, base::counted(std::ssize(row.loads), "load"), "; expected ", moe.experts,
         " (model.moe.experts)");
  for (const double load : row.loads)
    if (!std::isfinite(load) || load < 0)
      fail(ExitCode::usage, place, "a load is ", load, "; expected a finite number, at least 0");
  const double sum = std::accumulate(row.loads.begin(), row.loads.end(), 0.0);
  if (sum == 0) fail(ExitCode::usage, place, "all loads of a layer are 0; expected at least one above 0");
  if (!std::isfinite(sum))
    fail(ExitCode::usage, place, "the loads of a layer add up to infinity; expected smaller loads");
  // Tolerance for shares in metrics.jsonl, which are rounded.
  constexpr double rounding = 1.01;
  const double most = 1.0 / static_cast<double>(moe.top_k);
  for (size_t e = 0; e < row.loads.size(); ++e)
    if (const double share = row.loads[e] / sum; share > rounding * most)
      fail(ExitCode::usage, place, "expert ", e, " has ", share, " of the layer's load; expected at most ", most,
           ", because a token visits ", moe.top_k, " different experts (model.moe.top_k)");
}

std::vector<Row> rows_of_text(std::istream& in, const std::string& path) {
  std::vector<Row> rows;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    line = line.substr(0, line.find('#'));
    for (char& c : line)
      if (c == ',') c = ' ';
    std::istringstream words(line);
    Row row{number, {}};
    for (std::string word; words >> word;) row.loads.push_back(number_of(word, base::cat(path, ":", number)));
    if (!row.loads.empty()) rows.push_back(std::move(row));
  }
  if (rows.empty())
    fail(ExitCode::usage, path, ":1: the file has no loads; expected one line of loads for each MoE layer");
  return rows;
}

// Returns the rows of the last step with expert_load. Ignores an incomplete last line, which a crash may have left.
std::vector<Row> rows_of_metrics(std::istream& in, const std::string& path) {
  std::optional<telemetry::StepMetrics> last;
  int64_t line_of_last = 0, unreadable = 0;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (unreadable > 0)
      fail(ExitCode::usage, path, ":", unreadable,
           ": the line is not valid JSON, expected a record of metrics.jsonl; is the file truncated or damaged?");
    telemetry::MetricsRecord record = telemetry::parse_json_line(line);
    if (std::holds_alternative<std::monostate>(record)) unreadable = number;
    auto* step = std::get_if<telemetry::StepMetrics>(&record);
    if (step && !step->expert_load.empty()) last = std::move(*step), line_of_last = number;
  }
  if (!last) fail(ExitCode::usage, path, ":1: no step has expert_load; set train.router_every to record it");
  std::vector<Row> rows;
  for (std::vector<double>& loads : last->expert_load)
    if (!loads.empty()) rows.push_back({line_of_last, std::move(loads)});
  if (rows.empty())
    fail(ExitCode::usage, path, ":", line_of_last, ": expert_load has no layer with experts; expected at least one");
  return rows;
}

}  // namespace

ExpertShares read_expert_shares(const std::string& path, const layers::ModelConfig& model) {
  if (model.moe.experts == 0)
    fail(ExitCode::usage, path,
         ": loads of experts are given, but the model has no experts (model.moe.experts is 0); remove --routing");
  if (const std::string problem = base::file_problem(path); !problem.empty())
    fail(ExitCode::usage, "--routing: cannot read '", path, "': ", problem,
         "; expected even, p99, worst, or a file with the loads of experts");
  std::ifstream in(path);
  const bool metrics = (in >> std::ws).peek() == '{';
  in.clear(), in.seekg(0);
  const std::vector<Row> rows = metrics ? rows_of_metrics(in, path) : rows_of_text(in, path);

  for (const Row& row : rows) check(row, model.moe, path);
  const int64_t layers = model.moe_layers();
  const bool alike = !metrics && rows.size() == 1;  // true: the only line applies to all MoE layers
  if (!alike && std::ssize(rows) != layers)
    fail(ExitCode::usage, path, ":", rows.back().line, ": the file has loads of ",
         base::counted(std::ssize(rows), "layer"), "; expected ", layers, " (the model's MoE layers), or ",
         metrics ? "a text file with one line for all layers" : "one line for all layers");

  ExpertShares shares;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<double>& row = shares.emplace_back(rows[alike ? 0 : layer].loads);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& share : row) share /= sum;
  }
  return shares;
}

}  // namespace hexad::plan
