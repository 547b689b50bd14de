// Options that a recipe gives to something chosen by name.
#include "framework/config/options.h"

#include <gtest/gtest.h>

#include "tests/config/example_recipe.h"

namespace hexad::config {
namespace {

TEST(Options, ReturnTheGivenValueOrTheDefault) {
  const Options o("optim.options", "the optimizer nesterov", std::vector<NumberOption>{{"momentum", 0.8}});
  EXPECT_EQ(o.number("momentum", 0.9), 0.8);
  EXPECT_EQ(o.number("damping", 0.5), 0.5);
  EXPECT_NO_THROW(o.require_all_asked());
}

TEST(Options, ANameGivenTwiceIsRefused) {
  const std::vector<NumberOption> given{{"momentum", 0.8}, {"damping", 1}, {"momentum", 0.1}};
  EXPECT_EQ(example::refusal([&] { Options("optim.options", "the optimizer nesterov", given); }),
            "optim.options.2.name (momentum) is given twice, also by optim.options.0; leave one of them out");
}

TEST(Options, NumbersAreFinite) {
  for (const std::string text : {"nan", "inf", "many", ""}) {
    const Options o("data.source_options", "the source letters", std::vector<TextOption>{{"symbols", text}});
    EXPECT_EQ(example::refusal([&] { o.number("symbols", 1); }),
              "data.source_options.0.value (" + text +
                  ") must be a finite number: it is the option symbols of the source letters");
    EXPECT_EQ(o.text("symbols", ""), text);
  }
}

}  // namespace
}  // namespace hexad::config
