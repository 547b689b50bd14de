// Ranks of `hexad verify` on several cards: threads of one process, each with its own card.
// distributed.device_collectives selects how tensors are sent.
#include <gtest/gtest.h>

#include "framework/device/kernel_loading.h"
#include "parallel/comm/thread_group.h"
#include "tests/support/cuda_double/nccl.h"
#include "tests/verify/subject_of_recipe.h"
#include "tools/train/model/model_instance.h"
#include "tools/verify/outcome_text.h"
#include "tools/verify/run_variant.h"
#include "tools/verify/subject.h"

namespace hexad::tests {
namespace {

struct VerifyOnCards : SubjectTest {
  VerifyOnCards() { device::load_kernels_at_start(); }

  // Runs a layout of `ranks` ranks, whose results must agree with the oracle. Returns the number of NCCL's operations.
  int64_t nccl_launches_of(const std::string& collectives, const char* text, int ranks) const {
    SCOPED_TRACE(cat(text, ", device_collectives ", collectives));
    const Subject s = subject({"device=cuda", "distributed.device_collectives=" + collectives});
    const Variant v = layout(text, ranks);
    EXPECT_EQ(s.illegal(v), "");
    Oracles oracles(s);
    const int64_t before = cuda_double::nccl_launches();
    const Outcome o = run_in_threads(s, oracles.of(v), v, {.jitter = {}, .seconds = 400});
    EXPECT_TRUE(o.agrees()) << explanation(o);
    return cuda_double::nccl_launches() - before;
  }
};

TEST_F(VerifyOnCards, UsesNcclIfTheRecipeSaysSo) {
  EXPECT_GT(nccl_launches_of("nccl", "pp=2", 2), 0);
  EXPECT_GT(nccl_launches_of("nccl", "dp=4,ep=2,window=yes", 4), 0);
}

TEST_F(VerifyOnCards, UsesHostMemoryIfTheRecipeSaysSo) { EXPECT_EQ(nccl_launches_of("host", "pp=2", 2), 0); }

// One process has all cards: CUDA calls of one rank may wait for the cards of other ranks, which wait for that rank.
TEST_F(VerifyOnCards, UsesHostMemoryByDefault) { EXPECT_EQ(nccl_launches_of("auto", "pp=2", 2), 0); }

// The nodes of threads are simulated, so all threads share the cards of one machine.
TEST(CardsOfThreads, DifferAlsoBetweenSimulatedNodes) {
  const auto on_rank = [](const comm::ProcessGroup& world) { EXPECT_EQ(place_of(world), world.rank()); };
  comm::with_ranks(4, on_rank, {.node_of_rank = {0, 0, 1, 1}});
}

}  // namespace
}  // namespace hexad::tests
