// Comparison of two records of a step.
#pragma once

#include <gtest/gtest.h>

#include "tools/plan/step_record.h"

namespace hexad::tests {

/// Expects equal operations, with their sizes, lanes, spans, dependencies and order, and equal groups and spans.
inline void expect_equal(const plan::StepRecord& expected, const plan::StepRecord& actual) {
  ASSERT_EQ(expected.issues.size(), actual.issues.size());
  EXPECT_TRUE(expected.groups == actual.groups);
  for (size_t i = 0; i < expected.issues.size(); ++i) {
    const device::Issue &a = expected.issues[i], &b = actual.issues[i];
    ASSERT_TRUE(a == b) << "operation " << i << " is " << b.family << '.' << b.name << " in " << actual.where(b)
                        << ", after " << testing::PrintToString(b.after) << "; expected " << a.family << '.' << a.name
                        << " in " << expected.where(a) << ", after " << testing::PrintToString(a.after);
  }
  ASSERT_EQ(expected.spans.size(), actual.spans.size());
  for (size_t s = 0; s < expected.spans.size(); ++s) {
    ASSERT_EQ(expected.spans[s].name, actual.spans[s].name) << "span " << s;
    ASSERT_EQ(expected.spans[s].around, actual.spans[s].around) << "span " << s << ": " << expected.spans[s].name;
  }
}

}  // namespace hexad::tests
