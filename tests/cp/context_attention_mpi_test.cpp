// Compares context attention with full attention under mpirun, over the communication engine.
// context_attention_test.cpp makes the same comparison with ranks that are threads.
#include <gtest/gtest.h>

#include "parallel/comm/world.h"
#include "tests/cp/context_check.h"

namespace hexad::tests {
namespace {

const comm::World* world = nullptr;  // set by main(): MPI is initialised once per process

TEST(MpiContextAttention, EqualsFullAttentionInOutputsAndGradients) {
  const auto group = world->group().split(0, world->rank(), comm::TrafficClass::cp, "cp");
  for (const Case& c : context_cases(world->size())) {
    SCOPED_TRACE(c.name);
    Lab lab;
    const Given whole = random_micro_batch(lab, c);
    const Results expected = full_attention(lab, c, whole);
    expect_rows(lab, c, expected, context_results(lab, lab.stream(), c, whole, *group), *group);
  }
}

}  // namespace
}  // namespace hexad::tests

int main(int argc, char** argv) {
  hexad::comm::World world;
  hexad::tests::world = &world;
  if (world.rank() != 0) GTEST_FLAG_SET(brief, 1);  // other ranks report only failures
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  // Peers of a failed rank may wait for it forever, so the job is aborted.
  if (failed) world.abort_job(hexad::base::ExitCode::communication);
  return 0;
}
