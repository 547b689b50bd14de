// Exit codes and messages of exceptions.
#include "framework/base/failure.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

namespace hexad::base {
namespace {

void expect_failure(const std::exception& e, ExitCode code, const std::string& text) {
  const Failure failure = failure_of(e);
  EXPECT_EQ(static_cast<int>(failure.code), static_cast<int>(code)) << failure.text;
  EXPECT_EQ(failure.text, text);
}

TEST(Failure, HasTheExitCodeOfAnError) {
  expect_failure(Error(ExitCode::numeric, "loss is nan"), ExitCode::numeric, "loss is nan");
}

TEST(Failure, FileSystemErrorsNameThePath) {
  const auto missing = std::make_error_code(std::errc::no_such_file_or_directory);
  expect_failure(std::filesystem::filesystem_error("cannot open", "data/x", missing), ExitCode::data,
                 "data/x: " + missing.message());
}

TEST(Failure, FullFileSystemIsAResourceError) {
  for (const std::errc lacking : {std::errc::no_space_on_device, std::errc::too_many_files_open}) {
    const std::error_code code = std::make_error_code(lacking);
    expect_failure(std::filesystem::filesystem_error("cannot copy", "data/x", code), ExitCode::resource,
                   cat("data/x: ", code.message()));
  }
  const std::error_code quota(EDQUOT, std::system_category());
  expect_failure(std::filesystem::filesystem_error("cannot copy", "data/x", quota), ExitCode::resource,
                 cat("data/x: ", quota.message()));
}

TEST(Failure, SystemErrorsAreResourceErrors) {
  const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again), "thread");
  expect_failure(no_thread, ExitCode::resource, no_thread.what());
  expect_failure(std::bad_alloc(), ExitCode::resource, "out of memory");
}

TEST(Failure, OtherErrorsAreBugs) {
  expect_failure(std::logic_error("[ep] 3 ranks"), ExitCode{1}, "internal error: [ep] 3 ranks");
}

TEST(Failure, AttemptedReturnsTheFailureOfItsException) {
  EXPECT_EQ(attempted([] {}).text, "");
  const auto missing = std::make_error_code(std::errc::no_such_file_or_directory);
  const Failure failure = attempted([&] { throw std::filesystem::filesystem_error("cannot open", "data/x", missing); });
  EXPECT_EQ(failure.text, "data/x: " + missing.message());
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_EQ(attempted([] { throw std::bad_alloc(); }).code, ExitCode::resource);
}

TEST(Failure, ClosedPipeIsRecognised) {
  EXPECT_TRUE(is_closed_pipe(std::system_error(std::make_error_code(std::errc::broken_pipe), "standard output")));
  EXPECT_FALSE(is_closed_pipe(std::system_error(std::make_error_code(std::errc::no_space_on_device), "output")));
  EXPECT_FALSE(is_closed_pipe(std::runtime_error("broken pipe")));
}

}  // namespace
}  // namespace hexad::base
