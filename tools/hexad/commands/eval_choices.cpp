#include "tools/hexad/commands/eval_choices.h"

#include <cmath>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/base/units.h"

namespace hexad::app {

using namespace base;
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double v : values) list.push_back(std::isfinite(v) ? Json(v) : Json(nullptr));
  return list;
}

}  // namespace

void require_items_path(const std::string& items, const std::string& choices) {
  namespace fs = std::filesystem;
  std::error_code error;  // an error means that one of the files does not exist
  if (fs::equivalent(items, choices, error))
    fail(ExitCode::usage, "--items (", items, ") would replace the file of questions (--choices); name another file");
  if (fs::is_directory(items, error)) fail(ExitCode::usage, "--items (", items, ") is a folder; name a file");
  const fs::path folder = fs::path(items).parent_path();
  if (folder.empty()) return;
  if (const std::string problem = folder_problem(folder.string()); !problem.empty())
    fail(ExitCode::usage, "--items (", items, ") cannot be created: ", folder.string(), ": ", problem);
}

void print_choices(const ChoiceEvaluation& e, bool json) {
  const auto items = static_cast<int64_t>(e.items.size());
  const double rate = static_cast<double>(e.scores.tokens) / e.seconds;
  if (json) {
    fmt::print("{}\n", text_of({{"run", e.run},
                                {"step", e.step},
                                {"choices", e.file},
                                {"layout", e.layout},
                                {"items", items},
                                {"acc", e.scores.acc},
                                {"acc_norm", e.scores.acc_norm},
                                {"acc_bytes", e.scores.acc_bytes},
                                {"tokens", e.scores.tokens},
                                {"seconds", e.seconds},
                                {"tokens_per_second", std::isfinite(rate) ? Json(rate) : Json(nullptr)}},
                               2));
    return;
  }
  fmt::print("step {}: acc {:.4f}, acc_norm {:.4f}, acc_bytes {:.4f} ({} of {})\n", e.step, e.scores.acc,
             e.scores.acc_norm, e.scores.acc_bytes, counted(items, "item"), e.file);
  fmt::print("forward only: {}\n", human_count(rate) + " tokens/s");
}

void write_choice_items(const ChoiceEvaluation& e, const std::string& path) {
  std::string lines;
  for (size_t i = 0; i < e.items.size(); ++i) {
    const train::ChoiceItem& item = e.items[i];
    const train::ChoiceAnswer& answer = e.scores.answers[i];
    lines += text_of({{"line", item.line},
                      {"gold", item.gold},
                      {"chosen", answer.chosen},
                      {"chosen_norm", answer.chosen_norm},
                      {"chosen_bytes", answer.chosen_bytes},
                      {"log_likelihoods", numbers(answer.log_likelihoods)}},
                     -1) +
             "\n";
  }
  write_file(path, lines);
}

}  // namespace hexad::app
