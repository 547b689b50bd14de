#include "framework/telemetry/logger.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <regex>
#include <thread>

#include "framework/base/error.h"
#include "tests/telemetry/temporary_folder.h"

namespace hexad::telemetry {
namespace {

TEST(Logger, EachRankHasItsFileAndRankZeroAlsoWritesToStandardError) {
  const TemporaryFolder folder;
  testing::internal::CaptureStderr();
  auto zero = make_logger(folder / "log/rank-0000.log", 0, spdlog::level::info);
  auto one = make_logger(folder / "log/rank-0001.log", 1, spdlog::level::info);
  zero->info("loaded {} tensors", 12);
  zero->debug("too fine");
  one->warn("slow link");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "info: loaded 12 tensors\n");
  const std::string first = contents(folder / "log/rank-0000.log"), second = contents(folder / "log/rank-0001.log");
  EXPECT_NE(first.find("rank 0 info: loaded 12 tensors\n"), std::string::npos) << first;
  EXPECT_EQ(first.find("too fine"), std::string::npos);
  EXPECT_NE(second.find("rank 1 warning: slow link\n"), std::string::npos) << second;
}

// Names in the files of other programs may contain terminal control codes.
TEST(Logger, ControlCharactersAreEscaped) {
  const TemporaryFolder folder;
  testing::internal::CaptureStderr();
  auto zero = make_logger(folder / "rank-0000.log", 0, spdlog::level::info);
  zero->info("tensor '\x1b[31mrouge \u00e9'\n\tnext");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "info: tensor '\\x1b[31mrouge \u00e9'\n\tnext\n");
  EXPECT_EQ(contents(folder / "rank-0000.log").find('\x1b'), std::string::npos);
}

TEST(Logger, CanWriteOnlyToTheFile) {
  const TemporaryFolder folder;
  testing::internal::CaptureStderr();
  auto zero = make_logger(folder / "rank-0000.log", 0, spdlog::level::info);
  file_only(*zero)->info("pid 17");
  zero->info("loaded");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "info: loaded\n");
  const std::string text = contents(folder / "rank-0000.log");
  EXPECT_NE(text.find("rank 0 info: pid 17\n"), std::string::npos) << text;
  EXPECT_LT(text.find("pid 17"), text.find("loaded")) << text;
}

TEST(Logger, FullDiskIsReportedOnceAndNeverThrows) {
  testing::internal::CaptureStderr();
  auto logger = make_logger("/dev/full", 1, spdlog::level::info);
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(logger->error("line {}", i));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "cannot write to /dev/full: No space left on device; lines of this log may be missing\n");
}

TEST(Logger, UnopenableFileFailsImmediately) {
  const TemporaryFolder folder;
  write_text(folder / "log", "");
  EXPECT_THROW(make_logger(folder / "log/rank-0000.log", 1, spdlog::level::info), base::Error);
}

TEST(Logger, LinesOfThreadsDoNotMix) {
  const TemporaryFolder folder;
  auto logger = make_logger(folder / "x.log", 1, spdlog::level::info);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) logger->info("abcdefghij");
    });
  }
  for (auto& t : threads) t.join();
  std::istringstream lines(contents(folder / "x.log"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    EXPECT_EQ(line.substr(line.find("rank 1")), "rank 1 info: abcdefghij");
  EXPECT_EQ(count, 200);
}

std::string first_line_in(const char* zone) {
  const TemporaryFolder folder;
  setenv("TZ", zone, 1);
  tzset();
  make_logger(folder / "x.log", 1, spdlog::level::info)->info("text");
  unsetenv("TZ");
  tzset();
  return contents(folder / "x.log");
}

TEST(Logger, LinesHaveTheTimeInUtcAndTheLocalTime) {
  const std::string day = "[0-9]{4}-[0-9]{2}-[0-9]{2} ", time = "[0-9]{2}:[0-9]{2}:[0-9]{2}";
  const auto matches = [](const std::string& line, const std::string& pattern) {
    return std::regex_match(line, std::regex(pattern));
  };
  const std::string abroad = first_line_in("XYZ-05:30"), here = first_line_in("UTC");
  EXPECT_TRUE(matches(abroad, day + time + R"(\.[0-9]{3} UTC, )" + time + R"( \+0530 rank 1 info: text\n)")) << abroad;
  EXPECT_TRUE(matches(here, day + time + R"(\.[0-9]{3} UTC rank 1 info: text\n)")) << here;
  const auto minutes = [](const std::string& text) { return 60 * std::stoi(text) + std::stoi(text.substr(3)); };
  const size_t local = abroad.find("UTC, ") + 5;
  EXPECT_EQ((minutes(abroad.substr(local)) - minutes(abroad.substr(11)) + 1440) % 1440, 5 * 60 + 30) << abroad;
}

}  // namespace
}  // namespace hexad::telemetry
