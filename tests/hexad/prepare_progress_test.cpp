#include "tools/hexad/commands/prepare_progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/error.h"

namespace hexad::app {
namespace {

TEST(PrepareProgress, ShowsRateDocumentsAndRemainingTime) {
  const data::PrepareProgress progress{"encoding", 25'000'000, 100'000'000, 1234, 5000};
  EXPECT_EQ(progress_text(progress, 5), "encoding 25.0%, 5.0 MB/s, 1,234 of 5,000 documents, 15.0 s left");
  EXPECT_EQ(progress_text(progress, 0.1), "encoding 25.0%, 1,234 of 5,000 documents");
  const data::PrepareProgress done{"reading", 100'000'000, 100'000'000, 5000};
  EXPECT_EQ(progress_text(done, 10), "reading 100.0%, 10.0 MB/s, 5,000 documents");
}

// Shows each progress at its time in seconds. Returns the lines that are written to a pipe.
std::string piped(const std::vector<std::pair<data::PrepareProgress, double>>& calls) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  telemetry::TextOutput out(ends[1]);
  PrepareProgressLine line(out);
  for (const auto& [progress, now] : calls) line.show(progress, now);
  line.finish();
  ::close(ends[1]);
  std::string text(4096, '\0');
  text.resize(std::max<ssize_t>(0, ::read(ends[0], text.data(), text.size())));
  ::close(ends[0]);
  return text;
}

TEST(PrepareProgress, PipeGetsALineForEachStageAndHalfMinute) {
  const data::PrepareProgress reading{"reading", 0, 100}, first{"encoding", 0, 100}, half{"encoding", 50, 100, 7};
  EXPECT_EQ(piped({{reading, 0}, {reading, 1}, {first, 2}, {half, 20}, {half, 33}, {half, 40}}),
            base::cat("reading\nencoding\n", progress_text(half, 31), "\n"));
}

}  // namespace
}  // namespace hexad::app
