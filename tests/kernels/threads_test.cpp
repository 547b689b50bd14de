// Tests numbers of threads, which must not change any bit of a result, and shares of a device that kernels may use.
#include <gtest/gtest.h>

#include <thread>

#include "framework/kernels/compute_share.h"
#include "framework/kernels/cpu/parallel.h"
#include "tests/kernels/cases.h"

namespace hexad::tests {

using namespace base;
using namespace kernels;
namespace {

TEST(Threads, ChangeNoBit) {
  using namespace kernels::cpu;
  const int before = thread_count();
  for (const Case& c : all_cases())
    for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      const Size size{263, 257};
      SCOPED_TRACE(cat(c.name, "_", dtype));
      set_thread_count(1);
      Trial one(7, size, dtype);
      c.body(cpu_table, one);
      for (int threads : {2, 3}) {
        set_thread_count(threads);
        Trial many(7, size, dtype);
        c.body(cpu_table, many);
        EXPECT_EQ(bitwise_difference(one, many), "") << threads << " threads";
      }
    }
  set_thread_count(before);
}

// A rank with lanes has several threads, but only one of them may compute on several cores.
TEST(Threads, AreOneByDefault) {
  using namespace kernels::cpu;
  const int before = thread_count();
  set_thread_count(3);
  int elsewhere = 0;
  std::thread([&] { elsewhere = thread_count(); }).join();
  EXPECT_EQ(elsewhere, 1);
  EXPECT_EQ(thread_count(), 3);
  set_thread_count(before);
}

TEST(ComputeShare, AppliesToThisThreadDuringItsLifetime) {
  EXPECT_EQ(kernels::compute_share(), 1);
  {
    const kernels::ComputeShare half(0.5);
    EXPECT_EQ(kernels::compute_share(), 0.5);
    double elsewhere = 0;
    std::thread([&] { elsewhere = kernels::compute_share(); }).join();
    EXPECT_EQ(elsewhere, 1);
  }
  EXPECT_EQ(kernels::compute_share(), 1);
}

TEST(ComputeShare, IsAShareOfTheLimitAroundIt) {
  using namespace kernels::cpu;
  const int before = thread_count();
  set_thread_count(8);
  {
    const kernels::ComputeShare half(0.5), quarter(0.5);
    EXPECT_EQ(kernels::compute_share(), 0.25);
    EXPECT_EQ(thread_count(), 2);
  }
  EXPECT_EQ(kernels::compute_share(), 1);
  EXPECT_EQ(thread_count(), 8);
  set_thread_count(before);
}

// An H100 has 132 multiprocessors. EPS-MoE, Table 6, divides them into eighths.
TEST(ComputeShare, IsAnEvenNumberOfMultiprocessors) {
  EXPECT_EQ(kernels::capped_multiprocessors(132, 1), 132);
  EXPECT_EQ(kernels::capped_multiprocessors(132, 0.5), 66);
  EXPECT_EQ(kernels::capped_multiprocessors(132, 0.125), 16);
  EXPECT_EQ(kernels::capped_multiprocessors(132, 0.001), 2);
}

}  // namespace
}  // namespace hexad::tests
