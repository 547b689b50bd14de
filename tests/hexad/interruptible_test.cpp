#include "tools/hexad/commands/interruptible.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/training/test_folder.h"
#include "tools/interop/new_folder.h"

namespace hexad::tests {
namespace {

TEST(Interruptible, RemovesTheTemporaryFolderAndDiesOfTheSignal) {
  const Scratch scratch;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto write_folder = [&] {
      std::signal(signal, SIG_DFL);  // a shell may have made the tests ignore the signal
      app::interruptible([&](const base::FileWork& work) {
        const interop::NewFolder folder(scratch / "target", work);
        folder.add_file("first", "text");
        std::raise(signal);
        folder.add_file("second", "text");
        return 0;
      });
    };
    EXPECT_EXIT(write_folder(), testing::KilledBySignal(signal), "");
    EXPECT_TRUE(std::filesystem::is_empty(scratch.path())) << signal;
  }
}

TEST(Interruptible, ReturnsTheResultWithoutASignal) {
  EXPECT_EQ(app::interruptible([](const base::FileWork& work) {
              work.moved("file");
              return 7;
            }),
            7);
}

}  // namespace
}  // namespace hexad::tests
