#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "framework/telemetry/progress_sink.h"

namespace hexad::telemetry {
namespace {

const RunInfo run{.name = "quickstart", .total_steps = 1000, .parameters = 1'230'000, .active_parameters = 450'000};

StepMetrics step_metrics(int64_t step) {
  StepMetrics s;
  s.step = step;
  s.tokens = step * 1000;
  s.loss = 3.4567;
  s.lr = 3e-4;
  s.grad_norm = 1.234;
  s.step_seconds = 0.5;
  s.tokens_per_second = 2000;
  s.mfu = 0.432;
  return s;
}

/// Pipe into which the sink writes.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_NONBLOCK), 0); }
  ~Pipe() { close(ends_[0]), close(ends_[1]); }
  int in() const { return ends_[1]; }
  std::string text() const {
    std::string all(65536, '\0');
    const ssize_t n = read(ends_[0], all.data(), all.size());
    all.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return all;
  }

 private:
  int ends_[2];
};

TEST(ProgressLine, FitsTheWidthByOmittingFieldsFromTheEnd) {
  const StepMetrics s = step_metrics(120);
  EXPECT_EQ(
      progress_line(run, s, 192, 200),
      "step   120/1,000  loss 3.4567  2.00 k tokens/s  MFU 43.2%  3 min 12 s left  [===                         ]");
  EXPECT_EQ(progress_line(run, s, 192, 79),
            "step   120/1,000  loss 3.4567  2.00 k tokens/s  MFU 43.2%  3 min 12 s left");
  EXPECT_EQ(progress_line(run, s, 192, 50), "step   120/1,000  loss 3.4567  2.00 k tokens/s");
  EXPECT_EQ(progress_line(run, s, 192, 20), "step   120/1,000");
  EXPECT_EQ(progress_line(run, s, 192, 6), "step  ") << "only the first field may be cut";
  for (int width = 1; width < 150; ++width)
    EXPECT_LE(progress_line(run, s, 192, width).size(), static_cast<size_t>(width));
}

TEST(ProgressSink, PipeGetsPlainLinesWithoutControlCodes) {
  const Pipe pipe;
  ProgressSink sink(TextOutput(pipe.in()), 10);
  sink.on_start(run);
  for (int64_t step = 1; step <= 20; ++step) sink.on_step(step_metrics(step));
  sink.on_eval({.step = 20, .tokens = 5000, .loss = 2.5, .bits_per_byte = 1.25});
  sink.on_end();
  EXPECT_EQ(pipe.text(),
            "quickstart: 1.23 M parameters (450 k active), 1 rank, 1,000 steps\n"
            "step 1/1000  loss 3.4567  lr 3.00e-04  grad norm 1.23  2.00 k tokens/s  MFU 43.2%  500 ms per step  "
            "8 min 20 s left\n"
            "step 10/1000  loss 3.4567  lr 3.00e-04  grad norm 1.23  2.00 k tokens/s  MFU 43.2%  500 ms per step  "
            "8 min 15 s left\n"
            "step 20/1000  loss 3.4567  lr 3.00e-04  grad norm 1.23  2.00 k tokens/s  MFU 43.2%  500 ms per step  "
            "8 min 10 s left\n"
            "step 20: held-out loss 2.5000 nats per token, 1.2500 bits per byte (5.00 k tokens)\n"
            "step 20: 20.0 k tokens; 20 steps in 10.0 s, 500 ms per step on average\n");
}

TEST(ProgressSink, ResumedRunIsMarkedAndShowsItsFirstStep) {
  const Pipe pipe;
  ProgressSink sink(TextOutput(pipe.in()), 10);
  RunInfo resumed = run;
  resumed.first_step = 42;
  sink.on_start(resumed);
  sink.on_step(step_metrics(43));
  const std::string text = pipe.text();
  EXPECT_NE(text.find("resumed after step 42\nstep 43/1000"), std::string::npos) << text;
}

TEST(ProgressSink, SkippedStepsAreShown) {
  StepMetrics s = step_metrics(1);
  s.skipped_steps = 3;
  EXPECT_NE(progress_line(run, s, 1, 200).find("3 skipped"), std::string::npos);
}

std::string line_of(const StepMetrics& s) {
  const Pipe pipe;
  ProgressSink sink(TextOutput(pipe.in()), 1);
  sink.on_step(s);
  return pipe.text();
}

TEST(ProgressSink, StepWithoutTargetsShowsNoLoss) {
  StepMetrics s = step_metrics(1);
  s.loss.reset();
  EXPECT_NE(progress_line(run, s, 1, 200).find("1/1,000  no targets  2.00 k tokens/s"), std::string::npos);
  EXPECT_NE(line_of(s).find("step 1/0  no targets  lr 3.00e-04"), std::string::npos) << line_of(s);
  EXPECT_EQ(heldout_text({.step = 1}), "held-out loss: no targets (0 tokens)");
}

TEST(ProgressSink, NanHasNoSign) {
  StepMetrics s = step_metrics(1);
  s.loss = s.grad_norm = -std::nan("");
  EXPECT_NE(line_of(s).find("loss NaN  lr 3.00e-04  grad norm NaN"), std::string::npos) << line_of(s);
  EXPECT_NE(progress_line(run, s, 1, 200).find("loss NaN"), std::string::npos);
  EXPECT_EQ(heldout_text({.step = 1, .tokens = 9, .loss = -std::nan("")}),
            "held-out loss NaN nats per token (9 tokens)");
}

TEST(ProgressSink, MfuAboveOneIsExplained) {
  StepMetrics s = step_metrics(1);
  s.mfu = 1.76;
  const std::string expected = "MFU 176.0% (the peak is set or measured too low)";
  EXPECT_NE(line_of(s).find(expected), std::string::npos) << line_of(s);
  EXPECT_NE(progress_line(run, s, 1, 200).find(expected), std::string::npos);
}

TEST(ProgressSink, SampleOfTheHeldOutSetIsMarked) {
  EXPECT_EQ(heldout_text({.step = 1, .tokens = 5000, .loss = 2.5, .sequences = 64, .total_sequences = 1512}),
            "held-out loss 2.5000 nats per token (64 of 1,512 sequences, 5.00 k tokens)");
}

TEST(ProgressSink, TerminalGetsOneUpdatedLine) {
  int controller = -1, terminal = -1;
  winsize size{.ws_row = 24, .ws_col = 30, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&controller, &terminal, nullptr, nullptr, &size), 0);
  setenv("TERM", "xterm", 1);
  ProgressSink sink(TextOutput(terminal), 10);
  sink.on_step(step_metrics(1));
  sink.on_step(step_metrics(2));
  const std::string expected = "\r\x1b[Kstep 1/0  loss 3.4567\r\r\x1b[Kstep 2/0  loss 3.4567\r";
  std::string text;  // may arrive in several pieces
  for (ssize_t n = 1; n > 0 && text.size() < expected.size();) {
    std::string piece(4096, '\0');
    n = read(controller, piece.data(), piece.size());
    text.append(piece, 0, std::max<ssize_t>(n, 0));
  }
  EXPECT_EQ(text, expected);
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(TextOutput(terminal).is_terminal()) << "a dumb terminal does not support control codes";
  close(terminal), close(controller);
}

TEST(ProgressSink, SurvivesTheEndOfItsReader) {
  ASSERT_EQ(signal(SIGPIPE, SIG_DFL), SIG_DFL) << "the test needs the default action, which ends the process";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  ProgressSink sink(TextOutput(ends[1]), 1);
  sink.on_start(run);
  for (int64_t step = 1; step <= 3; ++step) sink.on_step(step_metrics(step));
  sink.on_end();
  close(ends[1]);
}

TEST(TextOutput, StuckReaderDelaysTrainingOnlyOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string more_than_fits(1 << 17, 'x');
  TextOutput output(ends[1], BlockedReader::drop);
  output.write(more_than_fits);  // waits for one second
  for (int i = 0; i < 1000; ++i) output.write("lost\n");
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0)
      << "other processes share the descriptor, so its flags must not change";
  std::string text(more_than_fits.size(), '\0');
  const ssize_t fitted = read(ends[0], text.data(), text.size());
  output.write("back again\n");
  EXPECT_GT(fitted, 0);
  text.resize(std::max<ssize_t>(read(ends[0], text.data(), text.size()), 0));
  EXPECT_EQ(text, "\nback again\n") << "a line break must follow incomplete text";
  close(ends[0]), close(ends[1]);
}

TEST(TextOutput, LossOfAResultIsAnErrorUnlessItsReaderHasEnded) {
  const int full = open("/dev/full", O_WRONLY);
  TextOutput lost(full);
  EXPECT_NO_THROW(lost.require_written());
  lost.write("a result\n");
  EXPECT_THROW(lost.require_written(), std::system_error);
  close(full);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  TextOutput unread(ends[1]);
  unread.write("a result\n");
  EXPECT_NO_THROW(unread.require_written());
  close(ends[1]);
}

TEST(ProgressSink, FullDeviceDropsOnlyTheText) {
  const int full = open("/dev/full", O_WRONLY);
  ProgressSink sink(TextOutput(full), 1);
  EXPECT_NO_THROW(sink.on_step(step_metrics(1)));
  close(full);
}

}  // namespace
}  // namespace hexad::telemetry
