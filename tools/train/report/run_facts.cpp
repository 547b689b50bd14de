#include "tools/train/report/run_facts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"
#include "framework/io/checkpoint_store.h"
#include "framework/telemetry/metrics_json.h"
#include "tools/train/checkpoint/run_directory.h"

namespace hexad::train {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

int64_t bytes_in(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;  // files with an error are ignored, because a file may be removed at any time
    const auto size = at->is_regular_file(unknown) ? at->file_size(unknown) : 0;
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

void add_checkpoints(const fs::path& dir, RunFacts& facts) {
  std::error_code error;
  if (!fs::is_directory(dir / "checkpoints", error)) return;
  const io::CheckpointStore store((dir / "checkpoints").string());
  for (const int64_t step : store.steps())
    facts.checkpoints.push_back({step, store.path(step), bytes_in(store.path(step))});
}

void add_metrics(const fs::path& dir, RunFacts& facts) {
  const telemetry::MetricsHistory metrics = telemetry::read_metrics(dir / "metrics.jsonl");
  if (metrics.steps.empty()) return;
  facts.steps = metrics.steps.back().step;
  facts.tokens = metrics.steps.back().tokens;
  const auto step =
      std::find_if(metrics.steps.rbegin(), metrics.steps.rend(), [](auto& s) { return s.loss.has_value(); });
  if (step != metrics.steps.rend()) facts.loss = {step->step, *step->loss};
  const auto eval =
      std::find_if(metrics.evals.rbegin(), metrics.evals.rend(), [](auto& e) { return e.loss.has_value(); });
  if (eval != metrics.evals.rend()) facts.heldout_loss = {eval->step, *eval->loss};
}

void add_history(const fs::path& dir, RunFacts& facts) {
  const RunHistory history = read_history(dir);
  facts.ending = ending_of(history);
  auto start = std::find_if(history.starts.rbegin(), history.starts.rend(),
                            [&](const RunStart& s) { return s.run.first_step < facts.steps; });
  if (start == history.starts.rend()) start = history.starts.rbegin();  // no start has trained a step yet
  if (start == history.starts.rend()) return;
  facts.ranks = start->run.ranks;
  facts.layout = start->layout;
  facts.total_steps = start->run.total_steps;
}

std::string text_of(const RunFacts::Loss& loss) {
  return fmt::format("{} at step {}", base::human_loss(loss.value), base::grouped(loss.step));
}

// Returns a text like "3 (steps 16, 18, 20), 1.14 MiB together".
std::string text_of(const std::vector<RunFacts::Saved>& checkpoints) {
  constexpr size_t most = 6;
  if (checkpoints.empty()) return "none yet";
  std::string steps;
  double bytes = 0;
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    bytes += static_cast<double>(checkpoints[i].bytes);
    if (i + most < checkpoints.size()) continue;  // lists only the newest
    steps += (steps.empty() ? "" : ", ") + std::to_string(checkpoints[i].step);
  }
  return fmt::format("{} ({} {}{}), {}{}", checkpoints.size(), base::plural(std::ssize(checkpoints), "step"),
                     checkpoints.size() > most ? "..., " : "", steps, base::human_bytes(bytes),
                     checkpoints.size() > 1 ? " together" : "");
}

OrderedJson json_of(const std::optional<RunFacts::Loss>& loss) {
  if (!loss) return nullptr;
  return {{"step", loss->step},
          {"value", std::isfinite(loss->value) ? OrderedJson(loss->value) : OrderedJson(nullptr)}};
}

OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson(text); }
OrderedJson number_or_null(int64_t number) { return number > 0 ? OrderedJson(number) : OrderedJson(nullptr); }

}  // namespace

RunFacts facts_of_run(const fs::path& dir) {
  RunFacts facts;
  facts.folder = dir.string();
  const auto read = [&](auto&& add) {
    try {
      add(dir, facts);
    } catch (const base::Error& e) {
      facts.problems.emplace_back(e.what());
    }
  };
  if (is_run_directory(dir)) facts.recipe = (dir / "recipe.yaml").string();
  std::error_code error;
  if (fs::exists(dir / "metrics.jsonl", error)) read(add_metrics);
  read(add_history);
  read(add_checkpoints);
  return facts;
}

std::string describe(const RunFacts& facts) {
  std::string text = facts.folder + "\n";
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12} {}\n", name, value);
  };
  line("state", std::string(name_of(facts.ending.outcome)));
  line("", facts.ending.trouble);
  line("recipe", facts.recipe);
  if (facts.ranks > 0) line("layout", fmt::format("{}: {}", base::counted(facts.ranks, "rank"), facts.layout));
  line("steps done",
       facts.steps == 0
           ? "none"
           : fmt::format("{}{}, {} {}", base::grouped(facts.steps),
                         facts.total_steps > 0 ? " of " + base::grouped(facts.total_steps) : "",
                         base::human_count(static_cast<double>(facts.tokens)), base::plural(facts.tokens, "token")));
  if (facts.loss) line("last loss", text_of(*facts.loss));
  if (facts.heldout_loss) line("held-out", text_of(*facts.heldout_loss));
  line("checkpoints", text_of(facts.checkpoints));
  return text;
}

std::string describe_json(const RunFacts& facts) {
  OrderedJson checkpoints = OrderedJson::array();
  for (const RunFacts::Saved& c : facts.checkpoints)
    checkpoints.push_back({{"step", c.step}, {"folder", c.folder}, {"bytes", c.bytes}});
  const OrderedJson json{{"folder", facts.folder},
                         {"state", name_of(facts.ending.outcome)},
                         {"trouble", text_or_null(facts.ending.trouble)},
                         {"recipe", text_or_null(facts.recipe)},
                         {"ranks", number_or_null(facts.ranks)},
                         {"layout", text_or_null(facts.layout)},
                         {"steps_done", facts.steps},
                         {"total_steps", number_or_null(facts.total_steps)},
                         {"tokens", facts.tokens},
                         {"loss", json_of(facts.loss)},
                         {"heldout_loss", json_of(facts.heldout_loss)},
                         {"checkpoints", std::move(checkpoints)}};
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace hexad::train
