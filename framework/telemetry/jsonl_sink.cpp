#include "framework/telemetry/jsonl_sink.h"

#include <fstream>
#include <string>

#include "framework/base/error.h"
#include "framework/telemetry/metrics_json.h"

namespace hexad::telemetry {

namespace fs = std::filesystem;

namespace {

/// 0 of a line that cannot be read.
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

/// Bytes from the start of the file that stay when training goes on after `first_step`. Lines that cannot be read stay:
/// they were complete once, and are not ours to judge.
uintmax_t bytes_to_keep(const fs::path& path, int64_t first_step) {
  std::ifstream file(path);
  std::string line;
  uintmax_t kept = 0;
  while (std::getline(file, line) && !file.eof()) {  // eof() here: the line has no newline, it is torn
    if (step_of(parse_json_line(line)) > first_step) break;
    kept += line.size() + 1;
  }
  return kept;
}

}  // namespace

void JsonlSink::on_start(const RunInfo& run) {
  file_ = AppendFile(path_);
  if (!fs::is_regular_file(path_)) return;  // a pipe or device has no past
  std::error_code error;
  fs::resize_file(path_, run.first_step == 0 ? 0 : bytes_to_keep(path_, run.first_step), error);
  if (error)
    base::fail(base::ExitCode::resource, "cannot cut ", path_.string(), " at step ", run.first_step, ": ",
               error.message());
}

void JsonlSink::on_step(const StepMetrics& step) { file_.append(to_json_line(step) + "\n"); }

void JsonlSink::on_save(const SaveMetrics& save) { file_.append(to_json_line(save) + "\n"); }

void JsonlSink::on_eval(const EvalMetrics& eval) { file_.append(to_json_line(eval) + "\n"); }

}  // namespace hexad::telemetry
