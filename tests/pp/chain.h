// Model of twelve small linear layers, for tests of pipelines. The stages of the model together must compute the
// gradients that one rank computes, under every schedule.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "framework/autograd/ops/ops.h"
#include "parallel/pp/stage_split.h"
#include "parallel/pp/tape_stages.h"
#include "tests/support/compare.h"
#include "tests/support/lab.h"

namespace hexad::pp::chain {

using namespace autograd;
using namespace base;
using device::Device;
using tensor::Tensor;
using tests::Lab;

inline constexpr int64_t layers = 12, rows = 3, width = 4;

// Returns small whole numbers, so that every sum of products is exact and its order does not matter.
inline Tensor whole_numbers(const Shape& shape, std::string_view name, Device device) {
  const Philox random(1, Purpose::synthetic, name);
  std::vector<double> values(shape.numel());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(random.below(i, 4)) - 1;
  return Tensor::from<double>(values, shape, device);
}
inline Tensor input_of(int micro, Device d) { return whole_numbers({rows, width}, cat("input ", micro), d); }
inline Tensor gradient_of(int micro, Device d) { return whole_numbers({rows, width}, cat("gradient ", micro), d); }

// Chain of linear layers. Layer 0 and the last layer share one weight, like a tied embedding and head.
struct Chain {
  explicit Chain(Lab& on) : lab(on) {
    for (int64_t l = 0; l + 1 < layers; ++l) {
      Parameter& p = lab.parameter({width, width});
      tests::assign(p.local(), whole_numbers({width, width}, cat("weight ", l), lab.context).to_vector<double>());
      weights.push_back(&p);
    }
    weights.push_back(weights.front());
  }
  Value operator()(Tape& tape, Value x, int64_t begin, int64_t end) const {
    for (int64_t l = begin; l < end; ++l) x = linear(tape, x, *weights[l]);
    return x;
  }

  Lab& lab;
  std::vector<Parameter*> weights;
};

// Returns the gradient of each weight, summed over the micro-batches. One rank computes it with a tape per micro-batch.
inline std::vector<std::vector<double>> reference(int micro_batches) {
  Lab lab;
  Chain chain(lab);
  const auto policy = keep_policy();
  for (int m = 0; m < micro_batches; ++m) {
    Tape tape(lab.stream(), *policy);
    const Value out = chain(tape, {input_of(m, lab.context)}, 0, layers);
    backward(tape, out, gradient_of(m, lab.context));
  }
  std::vector<std::vector<double>> gradients;
  for (const auto& p : lab.parameters) {
    gradients.push_back(tests::values_of(p->gradient()));
    const auto zeros = std::count(gradients.back().begin(), gradients.back().end(), 0.0);
    EXPECT_LE(2 * zeros, p->gradient().numel()) << p->name() << ": mostly zero, so the comparison proves little";
  }
  return gradients;
}

// Stages of one rank. They are parts of the chain, like the stages of a model.
struct ModelOfRank {
  ModelOfRank(const Schedule& s, int rank)
      : split(s.stages, {}, {std::vector<double>(layers, 1.0), 0.5, 1}),
        chain(lab),
        stages(
            s, rank,
            [](int) {
              return StageWork::Boundary{{rows, width}, Dtype::f64};
            },
            functions(rank)) {}

  TapeStages::Functions functions(int rank) {
    TapeStages::Functions f;
    f.tape = [this] { return std::make_unique<Tape>(lab.stream(), *policy); };
    f.forward = [this, rank](Tape& tape, int local_stage, int micro, const Value& input) -> TapeStages::Output {
      const auto [begin, end] = split.layers(rank, local_stage);
      const bool first = split.has_embedding(rank, local_stage);
      EXPECT_EQ(input.data.defined(), !first);
      const Value out = chain(tape, first ? Value{input_of(micro, lab.context)} : input, begin, end);
      if (split.has_head(rank, local_stage)) return {{}, {{out, gradient_of(micro, lab.context)}}};
      return {out, {}};
    };
    f.contributed = [this](Parameter& p, bool last) { announced[&p] += last; };
    f.before_backward = [this] {
      if (backwards++ > 0) return;
      for (const auto& p : lab.parameters)
        EXPECT_FALSE(p->has_gradient()) << p->name() << ": the first backward was announced too late";
    };
    return f;
  }

  Lab lab;
  StageSplit split;
  std::unique_ptr<SavePolicy> policy = keep_policy();
  std::map<Parameter*, int> announced;
  int backwards = 0;  // number of backwards that were announced
  Chain chain;
  TapeStages stages;
};

// Sleeps with probability 1/3 before each forward, each backward and each computation of weight gradients. The times
// are random and differ between ranks.
class Jittered final : public StageWork {
 public:
  Jittered(StageWork& work, int rank, uint64_t seed)
      : work_(work), random_(seed, Purpose::jitter, cat("rank ", rank)) {}
  Boundary boundary(int micro) const override { return work_.boundary(micro); }
  Tensor forward(int local_stage, int micro, const Tensor& input) override {
    sleep();
    return work_.forward(local_stage, micro, input);
  }
  Tensor backward(int local_stage, int micro, const Tensor& doutput, Replay::Weights weights) override {
    sleep();
    return work_.backward(local_stage, micro, doutput, weights);
  }
  void weights(int local_stage, int micro) override {
    sleep();
    work_.weights(local_stage, micro);
  }

 private:
  void sleep() {
    if (random_.below(2 * n_, 3) == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_.below(2 * n_ + 1, 300)));
    ++n_;
  }
  StageWork& work_;
  Philox random_;
  uint64_t n_ = 0;
};

}  // namespace hexad::pp::chain
