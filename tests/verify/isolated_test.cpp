// Crashes, hangs and exceptions of a child process are results.
#include "tools/verify/isolated.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>

namespace hexad::verify {

using base::ExitCode;
namespace {

constexpr double long_enough = 60;

TEST(Isolated, ReturnsTheTextOfAnySize) {
  for (const size_t size : {size_t{0}, size_t{5}, size_t{3} << 20})
    EXPECT_EQ(run_isolated([=] { return std::string(size, 'x'); }, long_enough).text, std::string(size, 'x'));
}

TEST(Isolated, ChangesNothingInThisProcess) {
  int value = 1;
  EXPECT_EQ(run_isolated([&] { return std::to_string(++value); }, long_enough).text, "2");
  EXPECT_EQ(value, 1);
}

TEST(Isolated, ExceptionGivesItsMessageAndExitCode) {
  const Isolated r = run_isolated([]() -> std::string { base::fail(ExitCode::data, "no such layer"); }, long_enough);
  EXPECT_EQ(r.failure, "no such layer");
  EXPECT_EQ(r.code, ExitCode::data);
  const Isolated bug = run_isolated([]() -> std::string { throw std::logic_error("3 ranks"); }, long_enough);
  EXPECT_EQ(bug.failure, "internal error: 3 ranks");
  EXPECT_EQ(bug.code, ExitCode{1});
}

TEST(Isolated, SignalIsNamed) {
  const Isolated r = run_isolated(
      []() -> std::string {
        ::raise(SIGKILL);
        return {};
      },
      long_enough);
  EXPECT_EQ(r.failure, "ended by signal 9 (Killed)");
  EXPECT_FALSE(r.code) << "the child threw no exception";
}

TEST(Isolated, HangIsEnded) {
  const Isolated r = run_isolated(
      []() -> std::string {
        for (;;) ::pause();
      },
      0.05);
  EXPECT_EQ(r.failure, "no result after 0.05 s");
}

TEST(Isolated, ExitIsNoResult) {
  EXPECT_EQ(run_isolated([]() -> std::string { ::_exit(3); }, long_enough).failure, "ended with exit code 3");
}

TEST(IsolatedWorker, OneChildAnswersSeveralRequests) {
  int sum = 0;
  IsolatedWorker worker([&](const std::string& request) { return std::to_string(sum += std::stoi(request)); });
  EXPECT_EQ(worker.ask("2", long_enough).text, "2");
  EXPECT_EQ(worker.ask("3", long_enough).text, "5");
  EXPECT_EQ(worker.ask("three", long_enough).failure, "internal error: stoi");
  EXPECT_EQ(worker.ask("4", long_enough).text, "9");
  EXPECT_EQ(worker.children(), 1);
  EXPECT_EQ(sum, 0);
}

TEST(IsolatedWorker, AnotherChildAnswersAfterACrashAHangOrAnEnd) {
  IsolatedWorker worker([](const std::string& request) -> std::string {
    if (request == "kill") ::raise(SIGKILL);
    while (request == "hang") ::pause();
    return request;
  });
  EXPECT_EQ(worker.ask("kill", long_enough).failure, "ended by signal 9 (Killed)");
  EXPECT_EQ(worker.ask("a", long_enough).text, "a");
  EXPECT_EQ(worker.ask("hang", 0.05).failure, "no result after 0.05 s");
  EXPECT_EQ(worker.ask("b", long_enough).text, "b");
  worker.end();
  EXPECT_EQ(worker.ask("c", long_enough).text, "c");
  EXPECT_EQ(worker.children(), 4);
}

}  // namespace
}  // namespace hexad::verify
