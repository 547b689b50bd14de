// Texts of error messages.
#include "framework/base/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>

#include "framework/base/shape.h"

namespace hexad::base {
namespace {

template <class... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
void expect_streamed(const Parts&... parts) {
  EXPECT_EQ(cat(parts...), streamed(parts...));
}

enum Plain { seven = 7 };

TEST(Cat, PrintsLikeAStream) {
  const std::string text = "text";
  const char* pointer = "pointer";
  char array[] = "array";
  expect_streamed(text, std::string_view(text).substr(1, 2), pointer, array, "", "literal");
  expect_streamed(-1, 2U, int16_t{-3}, std::numeric_limits<int64_t>::min(), std::numeric_limits<size_t>::max());
  expect_streamed(true, 'c', int8_t{65}, uint8_t{66}, static_cast<unsigned char>('d'));
  expect_streamed(0.1, 1e-20, 1234567.0, 2.5F, -std::numeric_limits<double>::infinity());
  expect_streamed(Shape{2, 3}, " and ", Shape{}, seven, std::filesystem::path("a folder/file"));
  EXPECT_EQ(cat(true, ' ', 'c', ' ', uint8_t{66}, ' ', 1234567.0, ' ', std::filesystem::path("a b")),
            "1 c B 1.23457e+06 \"a b\"");
}

TEST(Cat, NoArgumentsGiveAnEmptyString) { EXPECT_EQ(cat(), ""); }

TEST(Require, BuildsItsMessageFromAllParts) {
  try {
    require(false, "[test] ", 3, " of ", std::string("four"), ' ', 0.5);
    FAIL() << "no error was thrown";
  } catch (const std::logic_error& e) {
    EXPECT_EQ(std::string(e.what()), "[test] 3 of four 0.5");
  }
}

}  // namespace
}  // namespace hexad::base
