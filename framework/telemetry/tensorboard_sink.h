// TensorBoard event files, written without TensorFlow or a protobuf library; scalars need only four message types.
#pragma once

#include <filesystem>

#include "framework/telemetry/append_file.h"
#include "framework/telemetry/metrics.h"

namespace hexad::telemetry {

/// Writes `folder`/events.out.tfevents.SECONDS.HOST.PID, one Event per record. A resumed run opens another file. Its
/// first events tell TensorBoard to discard the later steps of earlier files.
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

/// Returns one framed record: u64 length, its masked crc32c, the bytes, their masked crc32c; integers are
/// little-endian.
std::string tensorboard_record(std::string_view bytes);

}  // namespace hexad::telemetry
