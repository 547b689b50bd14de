// Tests run by mpirun: every rank runs every test. The tests run schedules of all kinds, with messages between
// processes.
#include <gtest/gtest.h>

#include "parallel/comm/world.h"
#include "tests/pp/chain.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {

using namespace base;
using namespace tensor;
namespace {

using namespace chain;

comm::World* world = nullptr;  // set by main(): MPI is initialised once per process

void expect_one_ranks_gradients(const Schedule& schedule, uint64_t jitter_seed) {
  SCOPED_TRACE(cat(name_of(schedule.kind), ", ", schedule.micro_batches, " micro-batches"));
  const auto pp = world->group().split(0, world->rank(), comm::TrafficClass::pp, "pp");
  ModelOfRank model(schedule, pp->rank());
  Jittered work(model.stages, pp->rank(), jitter_seed);
  run(schedule, *pp, work, model.lab.context);
  const auto expected = reference(schedule.micro_batches);
  for (size_t i = 0; const auto& p : model.lab.parameters) {
    const Tensor sum = p->gradient_to_add(model.lab.stream());
    pp->all_reduce(sum, comm::Reduce::sum, model.lab.stream()).wait();
    EXPECT_EQ(tests::values_of(sum), expected[i++]) << p->name();
  }
}

TEST(RunnerMpi, EveryScheduleGivesOneRanksGradients) {
  for (const PipelineConfig& config : all_configs())
    for (const int micro_batches : {1, 5, 8})
      expect_one_ranks_gradients(make_schedule(config, world->size(), micro_batches), 1);
}

}  // namespace
}  // namespace hexad::pp

int main(int argc, char** argv) {
  hexad::comm::World world;
  hexad::pp::world = &world;
  if (world.rank() != 0) GTEST_FLAG_SET(brief, 1);  // other ranks report only failures
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  // Peers of a failed rank may wait for it forever, so the job is aborted.
  if (failed) world.abort_job(hexad::base::ExitCode::communication);
  return 0;
}
