#include "tools/check_cluster/programs.h"

#include <gtest/gtest.h>

#include <array>

#include "framework/device/context.h"
#include "parallel/comm/thread_group.h"

namespace hexad::check_cluster {
namespace {

// Compares the programs of ranks, one program per rank. Expects at most one finding, with the same message on all
// ranks. Returns this message, or an empty text.
std::string compared(const std::vector<Program>& programs) {
  std::vector<std::string> messages(programs.size());
  comm::with_ranks(static_cast<int>(programs.size()), [&](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    const auto findings = compare_programs(programs[world.rank()], world, context);
    EXPECT_LE(findings.size(), 1u);
    for (const Finding& finding : findings) {
      EXPECT_EQ(finding.code, base::ExitCode::usage);
      EXPECT_EQ(finding.kind, "version");
      messages[world.rank()] = finding.message;
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
  return messages.front();
}

TEST(Programs, EqualProgramsAreNoFinding) {
  const Program own = own_program();
  EXPECT_EQ(own.digest.size(), 32u);
  EXPECT_EQ(compared({own, own, own}), "");
}

TEST(Programs, OtherVersionOfHexadIsAUsageFailure) {
  EXPECT_EQ(compared({{"1.0.0", "f00d"}, {"0.9.0", "beef"}, {"1.0.0", "f00d"}, {"1.0.0", "f00d"}}),
            "the version of hexad differs: 1.0.0 on ranks 0, 2 and 3; 0.9.0 on rank 1");
}

TEST(Programs, OtherFileIsAUsageFailure) {
  const std::string message = compared({{"1.0.0", "f00d"}, {"1.0.0", "beef"}});
  EXPECT_NE(message.find("the digest of the program's file differs: "), std::string::npos) << message;
  EXPECT_NE(message.find("beef on rank 1"), std::string::npos) << message;
}

TEST(Programs, LongVersionsAreShortened) {
  EXPECT_EQ(compared({{std::string(500, 'v'), "f00d"}, {std::string(500, 'v'), "f00d"}}), "");
}

TEST(Programs, OlderProgramsAreRecognisedByTheirFirstCollective) {
  comm::with_ranks(2, [](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    if (world.rank() == 1) {  // an older program, whose first collective is find_cores()
      const std::array<int64_t, 16> cores{3};
      world.all_gather_values(cores, context);
      return;
    }
    const auto findings = compare_programs({"1.0.0", "f00d"}, world, context);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_NE(findings[0].message.find("an older version on rank 1"), std::string::npos) << findings[0].message;
  });
}

}  // namespace
}  // namespace hexad::check_cluster
