// TensorBoard event files. They are written without TensorFlow or a protobuf library, because scalars need only four
// types of messages.
#pragma once

#include <filesystem>

#include "framework/telemetry/append_file.h"
#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Writes `folder`/events.out.tfevents.SECONDS.HOST.PID, with one event for each step and for each evaluation that has
/// a loss. A resumed run writes another file. An event at the start of this file makes TensorBoard discard the later
/// steps of earlier files.
class TensorboardSink : public MetricsSink {
 public:
  explicit TensorboardSink(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void on_start(const RunInfo& run) override;
  void on_step(const StepMetrics& step) override;
  void on_eval(const EvalMetrics& eval) override;

 private:
  std::filesystem::path folder_;
  AppendFile file_;
};

/// Returns a framed record: length (u64), masked crc32c of the length (u32), the bytes, and masked crc32c of the bytes
/// (u32). Integers are little-endian.
std::string tensorboard_record(std::string_view bytes);

}  // namespace hexad::telemetry
