// Faults that the environment variable HEXAD_FAULT requests.
#include "tools/train/process/planted_fault.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "framework/base/error.h"
#include "framework/device/context.h"
#include "framework/device/span_log.h"

namespace hexad::train {
namespace {

class PlantedFault : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("HEXAD_FAULT"); }

  static std::optional<Fault> fault_in(const char* text) {
    ::setenv("HEXAD_FAULT", text, 1);
    return fault_from_environment();
  }
  template <class F>
  static std::string message_of(const F& call) {
    try {
      call();
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::usage);
      return e.what();
    }
    return "no error";
  }
};

TEST_F(PlantedFault, HasAKindARankAStepAndAPoint) {
  const auto fault = fault_in("full@1,4,shard: file written");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, "full");
  EXPECT_EQ(fault->rank, 1);
  EXPECT_EQ(fault->step, 4);
  EXPECT_EQ(fault->point, "shard: file written");
  EXPECT_EQ(fault_in("kill@0,2")->point, "");
  EXPECT_FALSE(fault_in(""));
}

TEST_F(PlantedFault, TextAfterTheStepIsRefused) {
  for (const char* text : {"kill@0,2x", "kill@0,2 step", "kill@0,2.5", "kill@0", "kill@0,", "kill@x,2", "kil@0,2"})
    EXPECT_TRUE(
        message_of([&] { fault_in(text); }).starts_with(base::cat("HEXAD_FAULT is '", text, "'; expected kill|")))
        << text;
}

TEST_F(PlantedFault, TextAfterTheMillisecondsIsRefused) {
  device::DeviceContext context;
  device::SpanLog spans(context);
  for (const char* point : {"1s", "1.5", "1 2", "-1", "soon"}) {
    ::setenv("HEXAD_FAULT", base::cat("slow@0,1,", point).c_str(), 1);
    EXPECT_EQ(message_of([&] { inject_slowness(0, 1, spans); }),
              base::cat("HEXAD_FAULT: slow has the point '", point,
                        "', expected a whole number of milliseconds, at least 0"));
  }
  ::setenv("HEXAD_FAULT", "slow@0,1,1", 1);
  EXPECT_EQ(message_of([&] { inject_slowness(0, 1, spans); }), "no error");
}

}  // namespace
}  // namespace hexad::train
