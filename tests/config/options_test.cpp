// Options of a component that a recipe chooses by name.
#include "framework/config/options.h"

#include <gtest/gtest.h>

#include "tests/config/example_recipe.h"

namespace hexad::config {
namespace {

const OptionsOwner nesterov{"optim.options", "the optimizer nesterov"};

TEST(Options, ReturnTheGivenValueOrTheDefault) {
  const Options o(nesterov, {"momentum", "damping"}, std::vector<NumberOption>{{"momentum", 0.8}});
  EXPECT_EQ(o.number("momentum", 0.9), 0.8);
  EXPECT_EQ(o.number("damping", 0.5), 0.5);
}

TEST(Options, NameGivenTwiceIsRefused) {
  const std::vector<NumberOption> given{{"momentum", 0.8}, {"damping", 1}, {"momentum", 0.1}};
  EXPECT_EQ(example::refusal([&] {
              Options(nesterov, {"momentum", "damping"}, given);
            }),
            "optim.options.2.name (momentum) is given twice, also by optim.options.0; remove one of them");
}

TEST(Options, UndeclaredNameIsRefusedWithTheNearestFirst) {
  const std::vector<NumberOption> given{{"momentum", 0.8}, {"dampign", 1}};
  EXPECT_EQ(example::refusal([&] {
              Options(nesterov, {"momentum", "damping"}, given);
            }),
            "optim.options.1.name (dampign) is not an option of the optimizer nesterov; it has: damping, momentum");
  EXPECT_EQ(example::refusal([&] {
              Options({"optim.options", "the optimizer sgd"}, {}, given);
            }),
            "optim.options.0.name (momentum) is not an option of the optimizer sgd; it has none");
}

TEST(Options, ReadingAnUndeclaredOptionIsABug) {
  const Options o(nesterov, {"momentum"}, std::vector<NumberOption>{});
  try {
    o.number("damping", 0.5);
    ADD_FAILURE() << "no error was thrown; expected std::logic_error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[options] the optimizer nesterov reads the option damping; expected an option that it declares");
  }
}

struct Optim {
  std::vector<NumberOption> options;

  template <class V>
  void fields(V& v) {
    v("options", options, "numbers for the optimizer");
  }
};

struct WithOptions {
  Optim optim;

  template <class V>
  void fields(V& v) {
    v("optim", optim, "the optimizer");
  }
};

TEST(Options, AllBadNamesAreReportedWithTheirPlaces) {
  Problems problems;
  const auto recipe = read<WithOptions>(
      parse("optim:\n  options:\n    - {name: momentum}\n    - {name: dampign}\n    - {name: momentum}\n", "r.yaml"),
      problems);
  check_options(nesterov, {"momentum", "damping"}, recipe.optim.options, problems);
  EXPECT_EQ(problems.text(),
            "r.yaml:4: optim.options.1.name (dampign) is not an option of the optimizer nesterov; it has: damping, "
            "momentum\n"
            "r.yaml:5: optim.options.2.name (momentum) is given twice, also by optim.options.0; remove one of them");
}

TEST(Options, NumbersMustBeFinite) {
  for (const std::string text : {"nan", "inf", "many", ""}) {
    const Options o({"data.source_options", "the source letters"}, {"symbols"},
                    std::vector<TextOption>{{"symbols", text}});
    EXPECT_EQ(example::refusal([&] { o.number("symbols", 1); }),
              "data.source_options.0.value (" + text +
                  ") must be a finite number, because the option symbols of the source letters is a number");
    EXPECT_EQ(o.text("symbols", ""), text);
  }
}

}  // namespace
}  // namespace hexad::config
