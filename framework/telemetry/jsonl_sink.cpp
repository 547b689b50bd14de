#include "framework/telemetry/jsonl_sink.h"

#include <fstream>
#include <string>

#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

namespace fs = std::filesystem;

namespace {

/// Returns the step of a record; 0 if the line cannot be read.
int64_t step_of(const MetricsRecord& record) {
  return std::visit(
      [](const auto& r) -> int64_t {
        if constexpr (requires { r.step; })
          return r.step;
        else
          return 0;
      },
      record);
}

bool is_eval_of(int64_t step, const MetricsRecord& record) {
  return std::holds_alternative<EvalMetrics>(record) && step_of(record) == step;
}

struct Past {
  uintmax_t bytes = 0;            // bytes from the start of the file to the end of this part
  std::optional<uintmax_t> eval;  // offset of the first evaluation of first_step; nullopt if there is none
};

/// Returns the part of the file to keep if training continues after `first_step`. Complete lines, which end in a
/// newline, are kept even if they cannot be parsed.
Past past_of(const fs::path& path, int64_t first_step) {
  std::ifstream file(path);
  std::string line;
  Past past;
  while (std::getline(file, line) && !file.eof()) {  // eof(): the last line has no newline, so it is incomplete
    const MetricsRecord record = parse_json_line(line);
    if (step_of(record) > first_step) break;
    if (!past.eval && is_eval_of(first_step, record)) past.eval = past.bytes;
    past.bytes += line.size() + 1;
  }
  return past;
}

void cut(const fs::path& path, uintmax_t bytes, int64_t step) {
  std::error_code error;
  fs::resize_file(path, bytes, error);
  if (error)
    base::fail(base::ExitCode::resource, "cannot truncate ", path.string(), " after step ", step, ": ", error.message(),
               "; check the permissions of the file, or remove it");
}

}  // namespace

void JsonlSink::on_start(const RunInfo& run) {
  file_ = AppendFile(path_);
  first_step_ = run.first_step;
  eval_.reset();
  if (!fs::is_regular_file(path_)) return;  // a pipe or device contains no earlier records
  const Past past = run.first_step == 0 ? Past{} : past_of(path_, run.first_step);
  cut(path_, past.bytes, run.first_step);
  eval_ = past.eval;
}

/// Removes the evaluations of first_step. Other lines, such as records of saves, are kept.
void JsonlSink::remove_eval() {
  std::ifstream file(path_);
  file.seekg(static_cast<std::streamoff>(*eval_));
  std::string line, rest;
  while (std::getline(file, line))
    if (!is_eval_of(first_step_, parse_json_line(line))) rest += line + "\n";
  cut(path_, *eval_, first_step_);
  eval_.reset();
  if (!rest.empty()) file_.append(rest);
}

void JsonlSink::on_step(const StepMetrics& step) { file_.append(to_json_line(step) + "\n"); }

void JsonlSink::on_save(const SaveMetrics& save) { file_.append(to_json_line(save) + "\n"); }

void JsonlSink::on_eval(const EvalMetrics& eval) {
  if (eval_ && eval.step == first_step_) remove_eval();
  file_.append(to_json_line(eval) + "\n");
}

}  // namespace hexad::telemetry
