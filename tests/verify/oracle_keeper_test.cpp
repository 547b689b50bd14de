// Crashes, timeouts and exceptions of an oracle are reported.
#include "tools/verify/oracle_keeper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <new>

#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/recipe/complete.h"

namespace hexad::tests {

using namespace base;
using namespace verify;
namespace {

Variant layout(const char* text) { return parse_layouts(text, 2)[0]; }

Outcome agreeing(const Variant& v) {
  Outcome o{.variant = v};
  o.comparison.compared = {.steps = 1, .tensors = 2, .elements = 3};
  return o;
}

std::string said(const OracleKeeper::Run& run, double seconds = 60) {
  OracleKeeper keeper(run, seconds);
  return message_of(ExitCode::numeric, [&] { keeper.run(layout("dp=2,subject=zipf")); });
}

TEST(OracleKeeper, ReturnsOutcomes) {
  OracleKeeper keeper(agreeing, 60);
  for (const char* text : {"dp=2", "tp=2,sp=true"}) {
    const Outcome o = keeper.run(layout(text));
    EXPECT_EQ(o.variant, layout(text));
    EXPECT_TRUE(o.agrees());
  }
}

TEST(OracleKeeper, NamesTheCrashedOracle) {
  EXPECT_EQ(said([](const Variant& v) {
              ::raise(SIGKILL);
              return agreeing(v);
            }),
            "the oracle (subject=zipf on one rank in f64 on the CPU) failed: ended by signal 9 (Killed)");
}

TEST(OracleKeeper, NamesTheSlowOracle) {
  EXPECT_EQ(said(
                [](const Variant& v) {
                  for (;;) ::pause();
                  return agreeing(v);
                },
                0.05),
            "the oracle (subject=zipf on one rank in f64 on the CPU) failed: no result after 0.05 s");
}

TEST(OracleKeeper, ReportsTheExceptionOfAnOracle) {
  const layers::Registry registry;
  const Scratch scratch;
  train::Recipe recipe = small_recipe({"optim.lr=1e300"});
  train::complete(recipe, 1);
  const Subject subject(recipe, registry, 2, scratch.path());
  const std::string text = said([&](const Variant& v) {
    compute_oracle(subject);
    return agreeing(v);
  });
  EXPECT_TRUE(text.starts_with("the oracle (subject=own on one rank in f64 on the CPU) failed: ")) << text;
  EXPECT_NE(text.find(" of step "), std::string::npos) << text;
  EXPECT_NE(text.find("so nothing can be compared with it"), std::string::npos) << text;
}

TEST(OracleKeeper, KeepsTheExitCodeOfAnException) {
  OracleKeeper keeper([](const Variant&) -> Outcome { throw std::bad_alloc(); }, 60);
  EXPECT_EQ(message_of(ExitCode::resource, [&] { keeper.run(layout("dp=2")); }), "out of memory");
}

}  // namespace
}  // namespace hexad::tests
