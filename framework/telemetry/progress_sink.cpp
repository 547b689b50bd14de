#include "framework/telemetry/progress_sink.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/units.h"

namespace hexad::telemetry {

using namespace base;

namespace {

constexpr std::string_view clear_line = "\r\x1b[K";

std::string join(const std::vector<std::string>& fields, size_t count) {
  return fmt::format("{}", fmt::join(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(count), "  "));
}

std::string loss_field(const StepMetrics& s) { return (s.loss ? "loss " : "") + human_loss(s.loss); }

/// Returns the fields of the progress line, most important first.
std::vector<std::string> short_fields(const RunInfo& run, const StepMetrics& s, double seconds_left) {
  // The step is padded to a constant width, so the other fields do not move from step to step.
  const std::string total = grouped(run.total_steps);
  std::vector<std::string> fields{fmt::format("step {:>{}}/{}", grouped(s.step), total.size(), total), loss_field(s),
                                  fmt::format("{} tokens/s", human_count(s.tokens_per_second))};
  if (s.mfu > 0) fields.push_back("MFU " + human_mfu(s.mfu));
  if (seconds_left > 0) fields.push_back(human_duration(seconds_left) + " left");
  if (s.skipped_steps > 0) fields.push_back(fmt::format("{} skipped", s.skipped_steps));
  return fields;
}

std::string bar(double share, size_t columns) {
  const size_t inside = columns - 2;
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(inside));
  return fmt::format("[{:=<{}}{: <{}}]", "", full, "", inside - full);
}

}  // namespace

std::string progress_line(const RunInfo& run, const StepMetrics& s, double seconds_left, int width) {
  const size_t columns = std::max(width, 1);
  const std::vector<std::string> fields = short_fields(run, s, seconds_left);
  size_t count = fields.size();
  while (count > 1 && join(fields, count).size() > columns) --count;
  std::string line = join(fields, count);
  line.resize(std::min(line.size(), columns));
  const size_t room = std::min<size_t>(columns - line.size(), 32);
  if (count == fields.size() && room >= 12 && run.total_steps > 0)
    line += fmt::format("  {}", bar(static_cast<double>(s.step) / static_cast<double>(run.total_steps), room - 2));
  return line;
}

ProgressSink::ProgressSink(TextOutput output, int64_t every) : output_(output), every_(every) {
  base::require(every > 0, "[progress] `every` is ", every, ", expected at least 1");
}

void ProgressSink::on_start(const RunInfo& run) {
  run_ = run;
  std::string line = fmt::format("{}: {} parameters", run.name.empty() ? "run" : run.name,
                                 human_count(static_cast<double>(run.parameters)));
  if (run.active_parameters != run.parameters)
    line += fmt::format(" ({} active)", human_count(static_cast<double>(run.active_parameters)));
  line += fmt::format(", {}, {} {}", base::counted(run.ranks, "rank"), grouped(run.total_steps),
                      base::plural(run.total_steps, "step"));
  if (run.first_step > 0) line += fmt::format(", resumed after step {}", grouped(run.first_step));
  print_permanently(line);
}

void ProgressSink::on_step(const StepMetrics& s) {
  const double weight = seconds_per_step_ == 0 ? 1 : 0.1;
  seconds_per_step_ += weight * (s.step_seconds - seconds_per_step_);
  trained_seconds_ += s.step_seconds;
  last_ = s;
  if (output_.is_terminal()) {
    // Leaves one column unused, because some terminals would wrap a full line. The cursor returns to the left edge,
    // where other output may begin.
    const std::string line = progress_line(run_, s, seconds_left(s), output_.width() - 1);
    output_.write(fmt::format("{}{}\r", clear_line, line));
    progress_line_shown_ = true;
  } else if (s.step == run_.first_step + 1 || s.step % every_ == 0 || s.step == run_.total_steps) {
    std::string line = fmt::format("step {}/{}  {}  lr {:.2e}  grad norm {}  {} tokens/s", s.step, run_.total_steps,
                                   loss_field(s), s.lr, with_digits(s.grad_norm, 3), human_count(s.tokens_per_second));
    if (s.mfu > 0) line += "  MFU " + human_mfu(s.mfu);
    line += fmt::format("  {} per step", human_duration(s.step_seconds));
    if (const double left = seconds_left(s); left > 0) line += fmt::format("  {} left", human_duration(left));
    if (s.skipped_steps > 0) line += fmt::format("  {} skipped", s.skipped_steps);
    print_permanently(line);
    printed_ = s.step;
  }
}

std::string heldout_text(const EvalMetrics& e) {
  std::string text = e.loss ? fmt::format("held-out loss {} nats per token", human_loss(e.loss))
                            : fmt::format("held-out loss: {}", human_loss(e.loss));
  if (e.bits_per_byte) text += fmt::format(", {} bits per byte", with_decimals(*e.bits_per_byte, 4));
  const std::string part =
      e.whole_set() ? "" : fmt::format("{} of {} sequences, ", grouped(e.sequences), grouped(e.total_sequences));
  return text + fmt::format(" ({}{} tokens)", part, human_count(static_cast<double>(e.tokens)));
}

void ProgressSink::on_eval(const EvalMetrics& e) {
  print_permanently(fmt::format("step {}: {}", grouped(e.step), heldout_text(e)));
}

void ProgressSink::on_end() {
  if (last_.step == 0) {
    const bool complete = run_.first_step >= run_.total_steps;
    return print_permanently(complete
                                 ? fmt::format("no step was run, because the run has already done {0} of {0} steps",
                                               grouped(run_.total_steps))
                                 : "no step was run");
  }
  const auto trained = static_cast<double>(last_.step - run_.first_step);
  // The loss is omitted if a plain line of the last step has already shown it.
  const std::string loss = printed_ == last_.step ? "" : loss_field(last_) + " after ";
  print_permanently(fmt::format("step {}: {}{} tokens; {} step{} in {}, {} per step on average", grouped(last_.step),
                                loss, human_count(static_cast<double>(last_.tokens)),
                                grouped(last_.step - run_.first_step), trained == 1 ? "" : "s",
                                human_duration(trained_seconds_), human_duration(trained_seconds_ / trained)));
}

ProgressSink::~ProgressSink() {
  if (progress_line_shown_) output_.write("\n");
}

void ProgressSink::print_permanently(const std::string& text) {
  progress_line_shown_ = false;
  output_.write(output_.is_terminal() ? fmt::format("{}{}\n", clear_line, text) : text + "\n");
}

double ProgressSink::seconds_left(const StepMetrics& s) const {
  return static_cast<double>(std::max<int64_t>(run_.total_steps - s.step, 0)) * seconds_per_step_;
}

}  // namespace hexad::telemetry
