// State of a GPU, read from a double of NVML (tests/support/nvml_double).
#include "tools/check_cluster/measurements.h"

#include <gtest/gtest.h>

namespace hexad::check_cluster {
namespace {

TEST(CardState, IsReadFromTheDriver) {
  const CardState state = read_card_state("000102030405060708090a0b0c0d0e0f", HEXAD_NVML_DOUBLE);
  EXPECT_EQ(state.driver, "580.65.06");
  EXPECT_EQ(state.uncorrected_errors, 3);
  EXPECT_EQ(state.throttle_reasons, 0x44);
  EXPECT_EQ(state.temperature, 91);
  EXPECT_EQ(state.clock, 1200);
  EXPECT_EQ(state.highest_clock, 1980);
}

TEST(CardState, ValuesThatTheDriverDoesNotReportAreUnknown) {
  const CardState state = read_card_state(std::string(32, 'f'), HEXAD_NVML_DOUBLE);
  EXPECT_EQ(state.driver, "580.65.06");
  EXPECT_FALSE(state.uncorrected_errors);
  EXPECT_EQ(state.throttle_reasons, 0);
  EXPECT_EQ(state.temperature, 40);
  EXPECT_FALSE(state.clock);
  EXPECT_FALSE(state.highest_clock);
}

TEST(CardState, UnknownGpuHasAnUnknownState) {
  for (const char* id : {"00000000000000000000000000000000", "", "0123"}) {
    const CardState state = read_card_state(id, HEXAD_NVML_DOUBLE);
    EXPECT_EQ(state.driver, "580.65.06");
    EXPECT_FALSE(state.temperature) << id;
  }
}

TEST(CardState, IsUnknownWithoutTheLibrary) {
  for (const char* library : {"/nowhere/libnvidia-ml.so.1", "libm.so.6"}) {  // no file; a library without the functions
    const CardState state = read_card_state("000102030405060708090a0b0c0d0e0f", library);
    EXPECT_EQ(state.driver, "") << library;
    EXPECT_FALSE(state.uncorrected_errors) << library;
  }
}

}  // namespace
}  // namespace hexad::check_cluster
