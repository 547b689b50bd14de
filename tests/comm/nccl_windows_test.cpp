// Windows of ranks with a card each, on the NCCL test double: the kernels of each card access the memory of all cards.
#include <gtest/gtest.h>

#include "framework/kernels/kernel_table.h"
#include "nccl_ranks.h"
#include "parallel/comm/windows.h"
#include "tests/support/cuda_double/memory.h"
#include "tests/support/cuda_double/nccl.h"

namespace hexad::comm {

using namespace base;
namespace {

using device::Category;

constexpr int64_t width = 4, row_bytes = width * int64_t{sizeof(float)};

// Sends one row to each rank. Then pulls these rows back from the windows of the ranks. Row p of rank r has the value
// 100 round + 10 r + p.
void exchange_rows(const CardWorld& w, Windows& windows, int64_t round) {
  const int64_t ranks = w.world.size(), me = w.world.rank();
  Stream& stream = w.context.compute();
  const auto& k = kernels::kernels(w.context).permute;
  std::vector<int64_t> runs(3 * ranks);  // row p goes to row `me` of the window of rank p
  std::vector<float> mine, theirs;
  for (int64_t p = 0; p < ranks; ++p) {
    runs[p] = p + 1, runs[ranks + p] = p, runs[2 * ranks + p] = me - p;
    mine.insert(mine.end(), width, static_cast<float>(100 * round + 10 * me + p));
    theirs.insert(theirs.end(), width, static_cast<float>(100 * round + 10 * p + me));
  }
  const Tensor places = Tensor::from<int64_t>(runs, {3, ranks}, w.context),
               x = Tensor::from<float>(mine, {ranks, width}, w.context), got = Tensor::like(x), back = Tensor::like(x);
  windows.open(stream);
  k.put(stream, windows.own(), windows.distances(), places, x, {});
  windows.wait_for_ranks(stream);
  got.copy_from(windows.own().slice(0, 0, x.bytes()), stream);
  windows.close(stream);
  EXPECT_EQ(got.to_vector<float>(), theirs);
  windows.open(stream);
  windows.own().slice(0, 0, x.bytes()).copy_from(got, stream);
  windows.wait_for_ranks(stream);
  k.pull(stream, back, windows.own(), windows.distances(), places);
  windows.close(stream);
  EXPECT_EQ(back.to_vector<float>(), mine);
}

TEST(NcclWindows, AreWrittenAndReadByAllCards) {
  for (const int ranks : {2, 3})
    with_cards(ranks, [](const CardWorld& w) {
      const auto group = w.world.split(0, w.world.rank(), TrafficClass::ep, "ep");
      Windows windows(*group);
      EXPECT_EQ(windows.refusal(w.context), "");
      ASSERT_TRUE(windows.hold(w.world.size() * row_bytes, w.context));
      for (int64_t round = 0; round < 5; ++round) exchange_rows(w, windows, round);
    });
}

TEST(NcclWindows, Grow) {
  with_cards(2, [](const CardWorld& w) {
    Windows windows(w.world);
    ASSERT_TRUE(windows.hold(1000, w.context));
    exchange_rows(w, windows, 0);
    const int64_t first = windows.bytes();
    EXPECT_FALSE(windows.hold(10 * first, w.context));
    windows.grow();
    EXPECT_GE(windows.bytes(), 10 * first);
    EXPECT_TRUE(windows.hold(10 * first, w.context));
    exchange_rows(w, windows, 1);
  });
}

class FullCard : public testing::Test {
 protected:
  void TearDown() override { cuda_double::set_capacity(capacity_); }

 private:
  const int64_t capacity_ = cuda_double::capacity();
};

// Only card 1 lacks memory for larger windows.
TEST_F(FullCard, MakesAllRanksKeepTheirWindows) {
  constexpr int64_t mib = 1 << 20, first = 4 * mib, larger = 64 * mib, room = 128 * mib;
  with_cards(3, [](const CardWorld& w) {
    Stream& stream = w.context.compute();
    Windows windows(w.world);
    ASSERT_TRUE(windows.hold(first, w.context));
    exchange_rows(w, windows, 0);
    const int64_t held = windows.bytes();
    const Tensor filler =
        w.world.rank() == 1 ? Tensor::zeros({room}, base::Dtype::u8, w.context, Category::activation) : Tensor();
    stream.synchronize();
    w.world.any(false, w.context);
    if (w.world.rank() == 0) cuda_double::set_capacity(cuda_double::in_use(1) + 16 * mib);
    w.world.any(false, w.context);
    const int64_t counted = w.context.allocator()->stats().used_in(Category::connection);
    EXPECT_FALSE(windows.hold(larger, w.context));
    windows.grow();
    EXPECT_EQ(windows.bytes(), held);
    EXPECT_EQ(windows.take_refused_bytes(), larger + larger / 4);
    EXPECT_EQ(w.context.allocator()->stats().used_in(Category::connection), counted);
    ASSERT_TRUE(windows.hold(first, w.context));
    exchange_rows(w, windows, 1);
    w.world.any(false, w.context);
  });
}

TEST(NcclWindows, AreRefusedIfNcclCannotMapThem) {
  const auto change = cuda_double::NcclChange::no_mapped_windows();
  with_cards(2, [](const CardWorld& w) {
    Windows windows(w.world);
    try {
      windows.hold(1000, w.context);
      ADD_FAILURE() << "no error is thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resource);
      EXPECT_STREQ(e.what(),
                   "schedule.moe.all_to_all is window, but NCCL cannot map the memory of each card of group world for "
                   "the other cards of the group; legal here: direct");
    }
  });
}

}  // namespace
}  // namespace hexad::comm
