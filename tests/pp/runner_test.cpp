// Schedules of all kinds give the gradients of one rank. Other tests check traffic, memory and errors of the runner.
#include "parallel/pp/pipeline_runner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "parallel/comm/thread_group.h"
#include "tests/pp/chain.h"
#include "tests/pp/pipeline_kinds.h"

namespace hexad::pp {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

using namespace chain;
using comm::ProcessGroup;
using comm::with_ranks;

// Work of a stage that yields before and after each forward and each backward.
class Yielding final : public StageWork {
 public:
  Yielding(StageWork& work, schedule::Fibers& fibers) : work_(work), fibers_(fibers) {}
  Boundary boundary(int micro) const override { return work_.boundary(micro); }
  Tensor forward(int local_stage, int micro, const Tensor& input) override {
    fibers_.yield();
    const Tensor out = work_.forward(local_stage, micro, input);
    fibers_.yield();
    return out;
  }
  Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) override {
    fibers_.yield();
    const Tensor out = work_.backward(local_stage, micro, doutput, weights);
    fibers_.yield();
    return out;
  }
  void weights(int local_stage, int micro) override { work_.weights(local_stage, micro); }

 private:
  StageWork& work_;
  schedule::Fibers& fibers_;
};

enum class Pairs : uint8_t { one_after_the_other, as_fibers };

// Runs a schedule on `schedule.stages.ranks` threads and compares every gradient. The tied weight's gradient is summed
// over ranks.
void expect_one_ranks_gradients(const Schedule& schedule, uint64_t jitter_seed = 0,
                                Pairs pairs = Pairs::one_after_the_other) {
  SCOPED_TRACE(cat(name_of(schedule.kind), ", ", schedule.stages.ranks, " ranks, ", schedule.stages.stages_a_rank,
                   " virtual stages per rank, ", schedule.micro_batches, " micro-batches"));
  const auto expected = reference(schedule.micro_batches);
  std::mutex mutex;
  std::vector<std::vector<double>> sums(expected.size());
  with_ranks(schedule.stages.ranks, [&](const ProcessGroup& pp) {
    ModelOfRank model(schedule, pp.rank());
    Jittered jittered(model.stages, pp.rank(), jitter_seed);
    schedule::Fibers fibers;
    Yielding work(jitter_seed ? static_cast<StageWork&>(jittered) : model.stages, fibers);
    run(schedule, pp, work, model.lab.context, pairs == Pairs::as_fibers ? &fibers : nullptr);
    pp.barrier(model.lab.stream()).wait();  // a peer may still hold a message that it has just delivered
    EXPECT_EQ(model.lab.used(Category::activation), 0) << "some activations are still in memory";
    EXPECT_EQ(model.lab.used(Category::communication), 0);
    std::lock_guard lock(mutex);
    EXPECT_EQ(model.backwards, schedule.micro_batches * schedule.stages.stages_a_rank);
    size_t i = 0;
    for (const auto& p : model.lab.parameters) {
      EXPECT_EQ(model.announced[p.get()], p->has_gradient() ? 1 : 0) << p->name();
      auto& sum = sums[i++];
      if (!p->has_gradient()) continue;
      const auto values = tests::values_of(p->gradient());
      sum.resize(values.size());
      for (size_t k = 0; k < values.size(); ++k) sum[k] += values[k];
    }
  });
  EXPECT_EQ(sums, expected);
}

class Runner : public testing::TestWithParam<PipelineKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Runner, testing::ValuesIn(all_kinds()),
                         [](const auto& i) { return "kind_" + std::string(name_of(i.param)); });

PipelineConfig config_of(PipelineKind kind, int64_t virtual_stages = 2) {
  return {.kind = kind, .virtual_stages = virtual_stages, .split = {}};
}

TEST_P(Runner, OneToFourRanksGiveOneRanksGradients) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int micro_batches : {1, 3, 7, 8})
      expect_one_ranks_gradients(make_schedule(config_of(GetParam()), ranks, micro_batches));
}

TEST_P(Runner, DelaysDoNotChangeTheGradients) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    expect_one_ranks_gradients(make_schedule(config_of(GetParam()), 4, 9), seed);
}

class RunnerOfPairs : public testing::TestWithParam<PipelineKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RunnerOfPairs, testing::Values(PipelineKind::one_f_one_b, PipelineKind::dualpipe_v),
                         [](const auto& i) { return "kind_" + std::string(name_of(i.param)); });

PipelineConfig pairs_of(PipelineKind kind) { return {.kind = kind, .split = {}, .overlap = Overlap::micro_batches}; }

TEST_P(RunnerOfPairs, GivesOneRanksGradientsWithAndWithoutFibers) {
  for (const Pairs pairs : {Pairs::one_after_the_other, Pairs::as_fibers})
    for (const int ranks : {1, 2, 3, 4})
      for (const int micro_batches : {1, 2, 3, 7, 8})
        expect_one_ranks_gradients(make_schedule(pairs_of(GetParam()), ranks, micro_batches), 0, pairs);
}

TEST_P(RunnerOfPairs, DelaysDoNotChangeTheGradients) {
  for (uint64_t seed = 1; seed <= 4; ++seed)
    expect_one_ranks_gradients(make_schedule(pairs_of(GetParam()), 4, 9), seed, Pairs::as_fibers);
}

TEST(InterleavedRunner, UpToSixVirtualStagesPerRankGiveOneRanksGradients) {
  for (const int64_t virtual_stages : {1, 3, 4, 6})
    expect_one_ranks_gradients(make_schedule(config_of(PipelineKind::interleaved, virtual_stages), 2, 5));
}

TEST(InterleavedRunner, OneRankPassesEveryTensorToItself) {
  expect_one_ranks_gradients(make_schedule(config_of(PipelineKind::interleaved, 12), 1, 3));
}

// In a V-shaped schedule, the two stages in the middle of the model are on the last rank. Therefore, messages cross
// one boundary fewer than in a loop with the same number of stages.
TEST(RunnerTraffic, VShapedScheduleSendsNothingAtItsTurn) {
  const auto bytes = [](PipelineKind kind) {
    std::atomic<int64_t> sum = 0;
    with_ranks(2, [&](const ProcessGroup& world) {
      const auto pp = world.split(0, world.rank(), comm::TrafficClass::pp, "pp");
      const Schedule schedule = make_schedule(config_of(kind), 2, 3);
      ModelOfRank model(schedule, pp->rank());
      run(schedule, *pp, model.stages, model.lab.context);
      sum += pp->take(comm::TrafficClass::pp).bytes;
    });
    return sum.load();
  };
  constexpr int64_t message = rows * width * 8;
  EXPECT_EQ(bytes(PipelineKind::interleaved), 3 * 2 * 3 * message)
      << "three boundaries send three micro-batches in both directions";
  EXPECT_EQ(bytes(PipelineKind::zb_v), 2 * 2 * 3 * message);
  EXPECT_EQ(bytes(PipelineKind::one_f_one_b), 1 * 2 * 3 * message);
}

TEST(RunnerMemory, OneForwardOneBackwardKeepsFewerActivationsThanGPipe) {
  const auto peak = [](PipelineKind kind) {
    std::atomic<int64_t> first = 0;
    with_ranks(2, [&](const ProcessGroup& pp) {
      const Schedule schedule = make_schedule(config_of(kind), 2, 8);
      ModelOfRank model(schedule, pp.rank());
      run(schedule, pp, model.stages, model.lab.context);
      if (pp.rank() == 0) first = model.lab.context.allocator()->stats().peak_in(Category::activation);
    });
    return first.load();
  };
  EXPECT_EQ(peak(PipelineKind::gpipe), 4 * peak(PipelineKind::one_f_one_b))
      << "GPipe keeps eight micro-batches, and 1F1B keeps two";
}

// Stages that return zeros without computing. Tests override the functions that they need.
class Fake : public StageWork {
 public:
  explicit Fake(Device device) : device_(device) {}
  Boundary boundary(int) const override { return {{2, 3}, Dtype::f32}; }
  Tensor forward(int, int, const Tensor&) override { return Tensor::zeros({2, 3}, Dtype::f32, device_); }
  Tensor backward(int, int, const Tensor&, Replay::Weights) override { return forward(0, 0, {}); }
  void weights(int, int) override {}

 protected:
  Device device_;
};

TEST(RunnerErrors, TensorOfAnotherShapeIsNamedAndNotSent) {
  class Wrong final : public Fake {
   public:
    using Fake::Fake;
    Tensor backward(int, int, const Tensor&, Replay::Weights) override {
      return Tensor::zeros({3, 2}, Dtype::f32, device_);
    }
  };
  try {
    with_ranks(2, [](const ProcessGroup& pp) {
      Lab lab;
      Wrong work(lab.context);
      run(make_schedule(config_of(PipelineKind::one_f_one_b), 2, 2), pp, work, lab.context);
    });
    FAIL() << "a gradient of shape [3, 2] was accepted; expected an error";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(),
                 "[pp] the output gradient of virtual stage 0, micro-batch 0, is [3, 2] f32; expected [2, 3] f32");
  }
}

// Two ranks of 1F1B that wait for each other would hang, and an omitted micro-batch would give a wrong gradient.
TEST(RunnerErrors, WrongScheduleIsRefusedBeforeItRuns) {
  const Schedule right = make_schedule(config_of(PipelineKind::one_f_one_b), 2, 2);
  const auto refusal = [](const Schedule& schedule) -> std::string {
    std::atomic<int> forwards = 0;
    class Counting final : public Fake {
     public:
      Counting(Device device, std::atomic<int>& count) : Fake(device), count_(count) {}
      Tensor forward(int local_stage, int micro, const Tensor& input) override {
        ++count_;
        return Fake::forward(local_stage, micro, input);
      }

     private:
      std::atomic<int>& count_;
    };
    try {
      with_ranks(2,
                 [&](const ProcessGroup& pp) {
                   Lab lab;
                   Counting work(lab.context, forwards);
                   run(schedule, pp, work, lab.context);
                 },
                 {.watchdog_seconds = 5});
    } catch (const std::logic_error& e) {
      EXPECT_EQ(forwards, 0);
      return e.what();
    } catch (const std::exception& e) {
      return cat("the schedule ran: ", e.what());
    }
    return "the schedule ran";
  };
  Schedule deadlock = right;
  std::swap(deadlock.ranks[0][1], deadlock.ranks[0][2]);
  std::swap(deadlock.ranks[1][1], deadlock.ranks[1][2]);
  EXPECT_EQ(refusal(deadlock),
            "[pp] the schedule never ends: rank 0 waits at B0.0, rank 1 waits at F0.1; expected an order in "
            "which ranks do not wait for each other");
  Schedule short_by_one = right;
  for (auto& list : short_by_one.ranks) std::erase_if(list, [](const Action& a) { return a.micro == 1; });
  EXPECT_EQ(refusal(short_by_one),
            "[pp] rank 0 leaves out a part of local stage 0 micro-batch 1; expected forward, input "
            "gradient and weight gradient");
  Schedule backward = forwards_of(right);
  backward.ranks[1].push_back({Action::Kind::backward, 0, 1});
  EXPECT_EQ(refusal(backward), "[pp] rank 1 action 2 B0.1: a backward in an evaluation; expected only forwards");
  EXPECT_EQ(refusal(forwards_of(right)), "the schedule ran");
}

TEST(RunnerErrors, FailureOfOneRankEndsAllRanks) {
  class Failing final : public Fake {
   public:
    Failing(Device device, int rank) : Fake(device), rank_(rank) {}
    Tensor forward(int local_stage, int micro, const Tensor& input) override {
      if (rank_ == 1 && micro == 2) fail(ExitCode::numeric, "loss is NaN");
      return Fake::forward(local_stage, micro, input);
    }

   private:
    int rank_;
  };
  for (const PipelineKind kind : all_kinds()) {
    try {
      with_ranks(3, [&](const ProcessGroup& pp) {
        Lab lab;
        Failing work(lab.context, pp.rank());
        run(make_schedule(config_of(kind), 3, 6), pp, work, lab.context);
      });
      FAIL() << "no error was thrown for " << name_of(kind) << "; expected the error of rank 1";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "loss is NaN");
    }
  }
}

// Records the start and the end of each action.
class Noting final : public Fake {
 public:
  Noting(Device device, schedule::Fibers& fibers, int fails_at = -1)
      : Fake(device), fibers_(fibers), fails_at_(fails_at) {}
  Tensor forward(int, int micro, const Tensor&) override { return note("F", micro); }
  Tensor backward(int, int micro, const Tensor&, Replay::Weights) override { return note("B", micro); }
  std::string log;

 private:
  Tensor note(const char* what, int micro) {
    log += cat(what, micro, "( ");
    fibers_.yield();
    if (*what == 'B' && micro == fails_at_) fail(ExitCode::numeric, "gradient is NaN");
    log += cat(")", what, micro, " ");
    return Fake::forward(0, 0, {});
  }
  schedule::Fibers& fibers_;
  int fails_at_;
};

TEST(RunnerOfOneRank, RunsTheActionsOfAPairInTurns) {
  with_ranks(1, [](const ProcessGroup& pp) {
    Lab lab;
    schedule::Fibers fibers;
    Noting work(lab.context, fibers);
    run(make_schedule(pairs_of(PipelineKind::one_f_one_b), 1, 3), pp, work, lab.context, &fibers);
    EXPECT_EQ(work.log, "F0( )F0 B0( F1( )B0 )F1 B1( F2( )B1 )F2 B2( )B2 ");
  });
}

TEST(RunnerErrors, FailureOfOneActionOfAPairEndsBoth) {
  with_ranks(1, [](const ProcessGroup& pp) {
    Lab lab;
    schedule::Fibers fibers;
    Noting work(lab.context, fibers, 1);
    EXPECT_THROW(run(make_schedule(pairs_of(PipelineKind::one_f_one_b), 1, 4), pp, work, lab.context, &fibers), Error);
    EXPECT_EQ(work.log, "F0( )F0 B0( F1( )B0 )F1 B1( F2( ") << "no action follows the failure";
  });
}

TEST(RunnerErrors, ScheduleOfAnotherSizeIsRefused) {
  with_ranks(1, [](const ProcessGroup& pp) {
    Lab lab;
    Fake work(lab.context);
    EXPECT_THROW(run(make_schedule(config_of(PipelineKind::gpipe), 2, 2), pp, work, lab.context), std::logic_error);
  });
}

}  // namespace
}  // namespace hexad::pp
