// Readable output of a verification.
#include "tools/verify/session.h"

#include <gtest/gtest.h>

#include <regex>

namespace hexad::verify {

using namespace base;
namespace {

// Returns a wrong outcome if tensors are split, and a crash if sequences are split.
Outcome pretended(const Variant& v) {
  Outcome o{.variant = v};
  o.comparison = {.worst = {2, "weight w", 1e-13, ""},
                  .mismatches = {},
                  .tolerance = 1e-11,
                  .compared = {.steps = 2, .tensors = 30, .elements = 400}};
  if (v.mesh[Axis::tp] > 1) o.comparison.mismatches = {{1, "loss", 0.5, "expected 2, got 3"}};
  if (v.mesh[Axis::cp] > 1) o.error = "ended by signal 11 (Segmentation fault)";
  return o;
}

struct Printed {
  bool agree;
  std::string text;
};

Printed run(const char* layouts, int world) {
  Printed out;
  const Illegal illegal = [](const Variant&) { return std::string(); };
  out.agree =
      run_all(select(layouts, world, illegal, 1), {.run = pretended,
                                                   .illegal = illegal,
                                                   .command = [](const Variant& v) { return "verify " + v.text(); },
                                                   .ranks = Ranks::may_leave,
                                                   .print = [&](const std::string& text) { out.text += text; }});
  out.text = std::regex_replace(out.text, std::regex(" in [0-9.]+ s"), " in 0 s");
  out.text = std::regex_replace(out.text, std::regex("  +"), "  ");
  return out;
}

TEST(Session, PrintsOneLinePerLayoutAndASummary) {
  const Printed p = run("dp=2;ep=2,recompute=block", 2);
  EXPECT_TRUE(p.agree);
  EXPECT_EQ(p.text,
            "2 layouts of 2 ranks\n\n"
            "mesh  options  steps tensors elements  worst  where\n"
            "dp=2  2 30 400  1.0e-13  weight w, step 2\n"
            "dp=2,ep=2  recompute=block  2 30 400  1.0e-13  weight w, step 2\n"
            "\n2 layouts in 0 s: 0 mismatches; otherwise the worst difference is 1.0e-13, 1% of its tolerance, in "
            "weight w\n"
            "compared: 4 steps, 60 tensors, 800 elements\n");
}

TEST(Session, FailureIsExplainedInItsSmallestLayoutWithACommand) {
  const Printed p = run("dp=4;pp=2,tp=2,etp=1,sp=true", 4);
  EXPECT_FALSE(p.agree);
  EXPECT_NE(p.text.find("pp=2,tp=2,etp=1  sp=true  2 30 400  5.0e-01  WRONG: loss, step 1\n"), std::string::npos)
      << p.text;
  EXPECT_NE(p.text.find(": 1 mismatch; "), std::string::npos) << p.text;
  EXPECT_TRUE(
      p.text.ends_with("the smallest layout that fails has 2 ranks:\n"
                       "tp=2,etp=1: step 1: loss: off by 5.0e-01; expected 2, got 3\n"
                       "repeat with: verify tp=2,etp=1\n"))
      << p.text;
}

TEST(Session, SummaryCountsErrorsApartFromMismatches) {
  EXPECT_NE(run("dp=4;pp=2,cp=2;cp=4;tp=2,dp=2", 4).text.find("4 layouts in 0 s: 2 errors, 1 mismatch; otherwise"),
            std::string::npos);
  EXPECT_NE(run("dp=2,cp=2", 4).text.find("1 layout in 0 s: 1 error, 0 mismatches; otherwise"), std::string::npos);
}

TEST(Session, CrashIsReportedAsAFailure) {
  const Printed p = run("dp=2,cp=2;dp=4", 4);
  EXPECT_FALSE(p.agree);
  EXPECT_NE(p.text.find("dp=2,cp=2  FAILED  ended by signal 11 (Segmentation fault)\n"), std::string::npos) << p.text;
  EXPECT_TRUE(p.text.ends_with("cp=2: ended by signal 11 (Segmentation fault)\nrepeat with: verify cp=2\n")) << p.text;
}

}  // namespace
}  // namespace hexad::verify
