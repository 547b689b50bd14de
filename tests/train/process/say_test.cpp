#include "tools/train/process/say.h"

#include <gtest/gtest.h>

namespace hexad::tests {
namespace {

TEST(Say, EscapesControlCharactersButNotLinesAndLetters) {
  testing::internal::CaptureStderr();
  train::say("tensor 'a\x1b[31m\r\x7f' of \u00e9t\u00e9\n\tnext");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hexad: tensor 'a\\x1b[31m\\x0d\\x7f' of \u00e9t\u00e9\n\tnext\n");
}

}  // namespace
}  // namespace hexad::tests
