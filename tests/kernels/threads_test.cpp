// Results are the same bits whatever the number of threads, and whichever other rows share the call.
#include <gtest/gtest.h>

#include <thread>

#include "framework/kernels/cpu/parallel.h"
#include "tests/kernels/cases.h"

namespace hexad::tests {
namespace {

TEST(Threads, DoNotChangeOneBit) {
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

// A rank with lanes has several threads: only one of them may use its cores.
TEST(Threads, ThatWereToldNothingComputeAlone) {
  using namespace kernels::cpu;
  const int before = thread_count();
  set_thread_count(3);
  int elsewhere = 0;
  std::thread([&] { elsewhere = thread_count(); }).join();
  EXPECT_EQ(elsewhere, 1);
  EXPECT_EQ(thread_count(), 3);
  set_thread_count(before);
}

}  // namespace
}  // namespace hexad::tests
