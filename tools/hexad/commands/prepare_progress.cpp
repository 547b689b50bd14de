#include "tools/hexad/commands/prepare_progress.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/base/units.h"

namespace hexad::app {

std::string progress_text(const data::PrepareProgress& progress, double seconds) {
  const auto done = static_cast<double>(progress.done_bytes), total = static_cast<double>(progress.total_bytes);
  std::string text = fmt::format("{} {}", progress.stage, base::human_percent(total > 0 ? done / total : 1));
  if (seconds >= 0.5) text += fmt::format(", {:.1f} MB/s", done / seconds / 1e6);
  text += fmt::format(", {}", base::grouped(progress.documents));
  if (progress.total_documents > 0) text += fmt::format(" of {}", base::grouped(progress.total_documents));
  text += " documents";
  if (seconds >= 0.5 && done > 0 && done < total)
    text += fmt::format(", {} left", base::human_duration(seconds * (total - done) / done));
  return text;
}

void PrepareProgressLine::show(const data::PrepareProgress& progress, double now) {
  const bool begins = stage_ != progress.stage;
  if (begins) stage_ = progress.stage, begun_ = now;
  const bool ends = progress.done_bytes == progress.total_bytes;
  if (out_.is_terminal()) {
    if (!begins && !ends && now - shown_ < 0.1) return;
    std::string line = progress_text(progress, now - begun_);
    line.resize(std::max(1, out_.width() - 1), ' ');  // the blanks overwrite the end of a longer line
    out_.write(fmt::format("\r{}", line));
  } else if (begins) {
    out_.write(stage_ + "\n");
  } else {
    if (now - shown_ < 30) return;
    out_.write(progress_text(progress, now - begun_) + "\n");
  }
  shown_ = now;
}

void PrepareProgressLine::finish() {
  if (out_.is_terminal() && !stage_.empty()) out_.write("\n");
}

}  // namespace hexad::app
