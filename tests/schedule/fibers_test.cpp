// Two fibers on one thread: their order, and the propagation of errors.
#include "framework/schedule/fibers.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace hexad::schedule {
namespace {

// Adds `text` to the log when this object is destroyed, at the normal end of a scope or by an exception.
struct Mark {
  std::string& log;
  char text;
  ~Mark() { log += text; }
};

class TurnsOfTwo : public testing::Test {
 protected:
  // Returns work that writes letters, starting at `first`: one before each of `times` yields, and one after the last
  // yield.
  Fibers::Work letters(char first, int times) {
    return [=, this] {
      for (int i = 0; i < times; ++i) {
        log += static_cast<char>(first + i);
        fibers.yield();
      }
      log += static_cast<char>(first + times);
    };
  }
  Fibers::Work failing(char first, int times) {
    return [=, this] {
      const Mark end{log, '!'};
      letters(first, times)();
      throw std::runtime_error("no");
    };
  }
  std::string error_of(const Fibers::Work& first, const Fibers::Work& second) {
    try {
      fibers.run(first, second);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return {};
  }

  Fibers fibers;
  std::string log;
};

TEST_F(TurnsOfTwo, EachFiberContinuesAfterItsYield) {
  fibers.run(letters('a', 3), letters('p', 3));
  EXPECT_EQ(log, "apbqcrds");
}

TEST_F(TurnsOfTwo, RemainingFiberContinuesAlone) {
  fibers.run(letters('a', 0), letters('p', 3));
  EXPECT_EQ(std::exchange(log, {}), "apqrs");
  fibers.run(letters('a', 3), letters('p', 1));
  EXPECT_EQ(log, "apbqcd");
}

TEST_F(TurnsOfTwo, YieldDoesNothingWithoutTheOtherFiber) {
  letters('a', 2)();
  EXPECT_EQ(log, "abc");
}

TEST_F(TurnsOfTwo, BothAreOnTheCallersThread) {
  const auto here = std::this_thread::get_id();
  const auto same = [&] { EXPECT_EQ(std::this_thread::get_id(), here); };
  fibers.run(same, same);
}

TEST_F(TurnsOfTwo, FailureOfTheFirstUnwindsTheSecond) {
  const auto second = [&] {
    const Mark end{log, '.'};
    letters('p', 5)();
  };
  EXPECT_EQ(error_of(failing('a', 2), second), "no");
  EXPECT_EQ(log, "apbqc!.") << "after the failure, only destructors of the second fiber run";
}

TEST_F(TurnsOfTwo, FailureOfTheSecondUnwindsTheFirstAndReachesTheCaller) {
  const auto first = [&] {
    const Mark end{log, '.'};
    letters('a', 5)();
  };
  EXPECT_EQ(error_of(first, failing('p', 1)), "no");
  EXPECT_EQ(log, "apbq!.");
}

TEST_F(TurnsOfTwo, SecondNeverStartsIfTheFirstFailsEarlier) {
  EXPECT_EQ(error_of(failing('a', 0), letters('p', 2)), "no");
  EXPECT_EQ(log, "a!");
}

TEST_F(TurnsOfTwo, ErrorAfterTheOtherFiberEndsReachesTheCaller) {
  EXPECT_EQ(error_of(letters('a', 0), failing('p', 2)), "no");
  EXPECT_EQ(std::exchange(log, {}), "apqr!");
  EXPECT_EQ(error_of(failing('a', 2), letters('p', 0)), "no");
  EXPECT_EQ(log, "apbc!");
}

TEST_F(TurnsOfTwo, FibersRemainUsableAfterAnError) {
  EXPECT_EQ(error_of(failing('a', 2), letters('p', 5)), "no");
  log.clear();
  fibers.run(letters('a', 1), letters('p', 1));
  EXPECT_EQ(log, "apbq");
}

// Each fiber throws and catches its own exceptions between yields, although C++ keeps the state of exceptions per
// thread.
TEST_F(TurnsOfTwo, CaughtErrorsStayInTheirFiber) {
  const auto busy = [&] {
    for (int i = 0; i < 100; ++i) {
      bool caught = false;
      try {
        fibers.yield();
        throw std::runtime_error("inside");
      } catch (const std::runtime_error& e) {
        caught = e.what() == std::string("inside");
      }
      EXPECT_TRUE(caught);
      fibers.yield();
    }
  };
  EXPECT_EQ(error_of(busy, busy), "");
}

TEST_F(TurnsOfTwo, PairInsideAnotherPairIsRefused) {
  const auto nested = [&] { fibers.run([] {}, [] {}); };
  EXPECT_THROW(fibers.run(nested, [] {}), std::logic_error);
}

}  // namespace
}  // namespace hexad::schedule
