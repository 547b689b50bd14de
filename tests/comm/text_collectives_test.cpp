#include "parallel/comm/text_collectives.h"

#include <gtest/gtest.h>

#include "parallel/comm/thread_group.h"

namespace hexad::comm {
namespace {

// Returns a text of `rank` letters.
std::string text_of(int rank) { return std::string(rank, static_cast<char>('a' + rank)); }

TEST(TextCollectives, GatherTextsReturnsEveryTextOnEveryRank) {
  with_ranks(3, [](const ProcessGroup& world) {
    device::DeviceContext host;
    EXPECT_EQ(gather_texts(text_of(world.rank()), world, host), (std::vector<std::string>{"", "b", "cc"}));
    EXPECT_EQ(gather_texts("", world, host), std::vector<std::string>(3));
  });
}

TEST(TextCollectives, BroadcastTextReturnsTheTextOfItsRoot) {
  with_ranks(3, [](const ProcessGroup& world) {
    device::DeviceContext host;
    EXPECT_EQ(broadcast_text(text_of(world.rank()), 2, world, host), "cc");
    EXPECT_EQ(broadcast_text(text_of(world.rank()), 0, world, host), "");
  });
}

TEST(TextCollectives, FirstTextComesFromTheLowestRankWithAText) {
  with_ranks(3, [](const ProcessGroup& world) {
    device::DeviceContext host;
    const auto first = first_text(text_of(world.rank()), 10 * world.rank(), world, host);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->rank, 1);
    EXPECT_EQ(first->text, "b");
    EXPECT_EQ(first->code, 10);
    EXPECT_FALSE(first_text("", world.rank(), world, host));
  });
}

TEST(TextCollectives, GatherBytesGivesRank0TheBytesOfEachRankInOrder) {
  with_ranks(3, [](const ProcessGroup& world) {
    device::DeviceContext host;
    std::vector<std::vector<uint8_t>> taken;
    const std::vector<uint8_t> mine(world.rank(), static_cast<uint8_t>(world.rank()));
    gather_bytes(mine, world, host, [&](int rank, const std::vector<uint8_t>& bytes) {
      EXPECT_EQ(rank, std::ssize(taken));
      taken.push_back(bytes);
    });
    if (world.rank() == 0)
      EXPECT_EQ(taken, (std::vector<std::vector<uint8_t>>{{}, {1}, {2, 2}}));
    else
      EXPECT_TRUE(taken.empty());
  });
}

}  // namespace
}  // namespace hexad::comm
