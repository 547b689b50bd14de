// Values of options, as the command line converts them.
#include "tools/hexad/command_line.h"

#include <gtest/gtest.h>

#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

struct Values {
  int steps = 1;
  int64_t count = 1;
  uint64_t seed = 1;
  std::optional<uint64_t> jitter;
};

// Parses `tool run` with these words.
Values parsed(std::vector<std::string> words) {
  Values values;
  CommandLine line("tool", "1", "a tool");
  const Command run = line.root().add_command("run", "runs");
  run.add_option("--steps", &values.steps, "steps").legal(whole_number(1));
  run.add_option("--count", &values.count, "a number").legal(whole_number(-1));
  run.add_option("--seed", &values.seed, "a seed");
  run.add_option("--jitter", &values.jitter, "another seed");
  run.run([] { return base::ExitCode::done; });
  words.insert(words.begin(), {"tool", "run"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  line.parse(static_cast<int>(words.size()), argv.data());
  return values;
}

// Returns the first line of the message that refuses these words.
std::string refusal(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const base::Error& e) {
    const std::string text = e.what();
    return e.code() == base::ExitCode::usage ? text.substr(0, text.find('\n')) : "wrong exit code";
  }
  return "accepted";
}

TEST(CommandLine, ReadsWholeNumbersOfEveryType) {
  const Values values =
      parsed({"--steps", "10", "--count", "-1", "--seed", "18446744073709551615", "--jitter", "9223372036854775808"});
  EXPECT_EQ(values.steps, 10);
  EXPECT_EQ(values.count, -1);
  EXPECT_EQ(values.seed, UINT64_MAX);
  EXPECT_EQ(values.jitter, uint64_t{1} << 63);
}

TEST(CommandLine, RefusesLeadingZerosWhichMeanOctalToSomeReaders) {
  EXPECT_EQ(refusal({"--steps", "010"}), "--steps: '010' given, expected 10");
  EXPECT_EQ(refusal({"--count", "007"}), "--count: '007' given, expected 7");
  EXPECT_EQ(refusal({"--seed", "010"}), "--seed: '010' given, expected 10");
  EXPECT_EQ(refusal({"--jitter", "00"}), "--jitter: '00' given, expected 0");
}

TEST(CommandLine, RefusesNumbersOutsideTheTypeInsteadOfChangingThem) {
  const std::string seeds = " given, expected a whole number from 0 to 18446744073709551615";
  EXPECT_EQ(refusal({"--seed", "-1"}), base::cat("--seed: '-1'", seeds));
  EXPECT_EQ(refusal({"--seed", "18446744073709551616"}), base::cat("--seed: '18446744073709551616'", seeds));
  EXPECT_EQ(refusal({"--jitter=-1"}), base::cat("--jitter: '-1'", seeds));
  EXPECT_EQ(refusal({"--seed", "many"}), base::cat("--seed: 'many'", seeds));
  EXPECT_EQ(refusal({"--steps", "3000000000"}),
            "--steps: '3000000000' given, expected a whole number from -2147483648 to 2147483647");
}

TEST(CommandLine, NamesTheLegalValuesOfAnOptionFirst) {
  EXPECT_EQ(refusal({"--steps", "many"}), "--steps: 'many' given, expected a whole number of at least 1");
  EXPECT_EQ(refusal({"--steps", "0"}), "--steps: '0' given, expected a whole number of at least 1");
}

}  // namespace
}  // namespace hexad::app
