#include "tools/plan/checkpoint_estimate.h"

#include <gtest/gtest.h>

namespace hexad::plan {
namespace {

TEST(CheckpointEstimate, RangeFollowsFromTheStatedRates) {
  const DiskSpeed speed{.sync_seconds = {1e-3, 4e-3}, .seconds_per_byte = {1 / 200e6, 1 / 100e6}};
  const WriteTime time = write_time(speed, 1e9, "runs");
  EXPECT_DOUBLE_EQ(time.least, 5.007) << "seven waits for the disk and 1 GB at 200 MB/s take 5.007 s";
  EXPECT_DOUBLE_EQ(time.most, 10.028);
  EXPECT_EQ(time.source,
            "one process writes to runs at 100 MB/s to 200 MB/s, and waits 7 times for the disk, 1 ms to 4 ms each; "
            "measured now");
  EXPECT_DOUBLE_EQ(time.ample, 20.056) << "the recommended time for a save is twice the longest";
}

}  // namespace
}  // namespace hexad::plan
