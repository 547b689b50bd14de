// Log of the experts that a run's tokens chose. Choices are read with row numbers that differ from the recorded row
// numbers.
#include "layers/moe/router/routing_log.h"

#include <gtest/gtest.h>

#include "tests/support/lab.h"
#include "tests/support/on_device.h"

namespace hexad::tests {
namespace {

using namespace layers;

constexpr int64_t layer = 1;

class RoutingLogTest : public Lab, public testing::Test {
 protected:
  // Makes two sequences of two tokens, from global token 4 on, and logs the experts that they chose.
  RoutingLogTest() {
    batch.sequences = 2, batch.length = 2;
    batch.first_token = 4;
    log.record(step(3), layer, 0, values(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}, {4, 2}), context.compute());
  }
  ForwardContext step(uint64_t number) const { return {.batch = batch, .step = number}; }
  std::vector<int32_t> chosen(const ForwardContext& forward_context, int64_t begin, int64_t count) {
    return to_host(log.choose(forward_context, layer, begin, count, context)).to_vector<int32_t>();
  }
  MicroBatch batch;
  RoutingLog log;
};

TEST_F(RoutingLogTest, FindsTokensUnderOtherRowNumbers) {
  EXPECT_EQ(chosen(step(3), 1, 2), (std::vector<int32_t>{2, 3, 4, 5}));
  batch.row_tokens = {3, 0};
  EXPECT_EQ(chosen(step(3), 0, 2), (std::vector<int32_t>{6, 7, 0, 1}));
  batch.row_tokens = {}, batch.first_token = 6;
  EXPECT_EQ(chosen(step(3), 0, 2), (std::vector<int32_t>{4, 5, 6, 7}));
}

TEST_F(RoutingLogTest, UnrecordedPaddingVisitsTheFirstExperts) {
  batch.first_token = 6;
  batch.valid_tokens = {2, 0};
  EXPECT_EQ(chosen(step(3), 1, 3), (std::vector<int32_t>{6, 7, 0, 1, 0, 1}));
}

TEST_F(RoutingLogTest, UnrecordedTokensAreAnError) {
  EXPECT_THROW(chosen(step(2), 0, 1), std::logic_error);
  batch.first_token = 8;
  EXPECT_THROW(chosen(step(3), 0, 1), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
