// Routers and optimizers that a program registers. Their runs are the same under several layouts, and load checkpoints
// of another layout.
#include <gtest/gtest.h>

#include "framework/tensor/host_read.h"
#include "optim/elementwise.h"
#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/plan/memory_estimate.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

// Router that chooses the experts of a token by the token's id. A gate of two products computes the weights of these
// experts.
class ByToken final : public moe::Router {
 public:
  ByToken(const moe::RouterSpec& s, const Builder& b)
      : rule_(s.rule()),
        experts_(s.model.moe.experts),
        shift_(static_cast<int64_t>(s.option("shift", 0))),
        narrow_(s, 8, s.model.hidden, b / "narrow"),
        gate_(s, experts_, 8, b / "gate") {}

  moe::RouterOutput operator()(Tape& t, const moe::RouterInput& in) const override {
    const Value logits = gate_(t, narrow_(t, in.x, in), in);
    return {logits, choose_experts(t, logits, {}, rule_, in.forced.defined() ? in.forced : chosen(in, t.stream))};
  }

 private:
  Tensor chosen(const moe::RouterInput& in, Stream& stream) const {
    const Tensor tokens = copy_to_host("router", in.token_ids(), stream);
    std::vector<int32_t> ids;
    for (int64_t row = 0; row < in.rows(); ++row)
      for (int64_t k = 0; k < rule_.top_k; ++k)
        ids.push_back(static_cast<int32_t>((tokens.data<int32_t>()[row] + shift_ + k) % experts_));
    return Tensor::from<int32_t>(ids, {in.rows(), rule_.top_k}, in.x.device());
  }

  kernels::RouterRule rule_;
  int64_t experts_, shift_;
  moe::Gate narrow_, gate_;
};

// Router that sends every row to the same experts with equal weights. It has neither logits nor scores.
class Even final : public moe::Router {
 public:
  explicit Even(const moe::RouterSpec& s)
      : top_k_(s.model.moe.top_k), first_(static_cast<int64_t>(s.option("first", 0))) {}
  moe::RouterOutput operator()(Tape&, const moe::RouterInput& in) const override {
    std::vector<int32_t> ids;
    std::vector<double> weights(in.rows() * top_k_, 1.0 / static_cast<double>(top_k_));
    for (int64_t i = 0; i < in.rows() * top_k_; ++i) ids.push_back(static_cast<int32_t>(first_ + i % top_k_));
    const Shape shape{in.rows(), top_k_};
    return {{},
            {{},
             {Tensor::from<double>(weights, shape, in.x.device()), -1},
             Tensor::from<int32_t>(ids, shape, in.x.device())}};
  }

 private:
  int64_t top_k_, first_;
};

class HeavyBall final : public optim::UpdateRule {
 public:
  explicit HeavyBall(const optim::RuleSpec& s) : momentum_(s.option("momentum", 0.9)) {}
  std::vector<std::string> states() const override { return {"velocity"}; }
  void update(Stream& stream, std::span<const optim::Slice> slices, const optim::UpdateStep& step) const override {
    optim::elementwise<1>(stream, slices, step,
                          [lr = step.lr, mu = momentum_](double& w, double g, auto& states, double decay) {
                            states[0] = mu * states[0] + g;
                            w -= lr * (states[0] + decay * w);
                          });
  }

 private:
  double momentum_;
};

Extensions extended() {
  Extensions e;
  e.add_router("by_token",
               {.options = {"shift"}, .uses_score_rule = true, .make = [](const moe::RouterSpec& s, const Builder& b) {
                  return std::make_unique<ByToken>(s, b);
                }});
  e.add_router("even", {.options = {"first"},
                        .make = [](const moe::RouterSpec& s, const Builder&) { return std::make_unique<Even>(s); }});
  e.optimizers.add("heavy_ball", {.options = {"momentum"},
                                  .make = [](const optim::RuleSpec& s) { return std::make_unique<HeavyBall>(s); }});
  return e;
}

Recipe recipe_with(const std::vector<std::string>& overrides = {}) {
  const std::string yaml = config::write(small_recipe());
  std::vector<std::string> all{"model.moe.router=by_token", "model.moe.z_loss=0.01", "optim.name=heavy_ball",
                               "optim.options=[{name: momentum, value: 0.5}]", "optim.lr=0.1"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_recipe(config::parse(yaml, "test.yaml", all), extended(), 0);
}

struct Layout {
  int ranks;
  std::vector<std::string> overrides;
};
const Layout layouts[] = {
    {2, {"parallel.ep=2", "parallel.zero=1"}},
    {4, {"parallel.tp=2", "parallel.ep=2", "parallel.etp=1", "parallel.sp=true"}},
    {4, {"parallel.tp=2", "parallel.ep=2", "parallel.etp=2", "schedule.moe.duplicates=drop"}},
    {4, {"parallel.pp=2", "parallel.cp=2", "parallel.ep=2", "parallel.zero=2"}},
    {4, {"parallel.ep=4", "parallel.zero=3", "offload.optimizer=file", "recompute=block"}},
};

TEST(Extensions, RegisteredRouterAndOptimizerGiveTheSameRunUnderSeveralLayouts) {
  const Recipe alone = recipe_with();
  const FixedSource source = documents_of(alone);
  TrainingRun run(alone, self, extended());
  const Trajectory expected = trajectory(run, source, 3);
  EXPECT_TRUE(expected.states.contains("layers.0.moe.router.narrow.weight/velocity"));
  for (const Layout& layout : layouts)
    on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
      SCOPED_TRACE(testing::PrintToString(layout.overrides));
      TrainingRun other(recipe_with(layout.overrides), world, extended());
      expect_close(expected, trajectory(other, source, 3), base::step_tolerance(Dtype::f64, 64, 2));
    });
}

TEST(Extensions, StatesOfARegisteredOptimizerLoadIntoAnotherLayout) {
  const Scratch scratch;
  const std::string dir = "run.dir=" + scratch.path();
  const FixedSource source = documents_of(recipe_with());
  TensorMap saved;
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_with({dir, "parallel.ep=2", "parallel.zero=1"}), world, extended());
    for (int s = 0; s < 2; ++s) run.step(source);
    run.save();
    TensorMap all = run.states();
    if (world.rank() == 0) saved = std::move(all);
  });
  auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000002", io::Check::full);
  EXPECT_TRUE(checkpoint.contains("layers.0.moe.router.gate.weight/velocity", io::Kind::state));
  on_ranks(4, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_with({dir, "parallel.tp=2", "parallel.ep=4", "parallel.etp=1"}), world, extended());
    run.load(scratch / "checkpoints/step-00000002");
    expect_bitwise(saved, run.states());
  });
  EXPECT_NE(message_of(ExitCode::usage,
                       [&] {
                         TrainingRun run(recipe_with({dir, "optim.name=sgd", "optim.options=[]"}), self, extended());
                         run.load(scratch / "checkpoints/step-00000002");
                       })
                .find("optim.name: heavy_ball -> sgd"),
            std::string::npos);
}

TEST(Extensions, EstimatesCountTheStatesOfARegisteredOptimizer) {
  EXPECT_EQ(recipe_with().optim.states, 1);
  EXPECT_EQ(small_recipe().optim.states, 2);
  EXPECT_EQ(small_recipe({"optim.name=sgd"}).optim.states, 0);
  EXPECT_EQ(small_recipe({"optim.name=muon"}).optim.states, 1)
      << "the smallest number of states of a parameter is one, that of a matrix";
}

// The router `even` sends all tokens to the first experts, but estimates assume the given load.
TEST(Extensions, EstimatesUseTheRoutingModelForARegisteredRouter) {
  const Extensions extensions = extended();
  const Recipe r = recipe_with({"model.moe.router=even", "model.moe.z_loss=0", "model.moe.aux_loss.coefficient=0",
                                "parallel.ep=2", "model.context=64"});
  const auto total = [&](int rank, plan::RoutingLoad load) {
    return plan::estimate_memory(r, extensions, mesh::Layout(r.parallel.sizes(), 2), rank, load).total;
  };
  EXPECT_EQ(total(0, plan::RoutingLoad::even), total(1, plan::RoutingLoad::even));
  EXPECT_GT(total(1, plan::RoutingLoad::one_rank), total(1, plan::RoutingLoad::even));
}

// Expects recipe_with(), which declares the extensions but constructs none, to reject the overrides.
void expect_refused(const std::vector<std::string>& overrides, const std::string& expected) {
  const std::string problem = message_of(ExitCode::usage, [&] { recipe_with(overrides); });
  EXPECT_NE(problem.find(expected), std::string::npos) << problem;
}

TEST(Extensions, UnknownNamesAndOptionsAreRefusedWithAlternatives) {
  expect_refused({"model.moe.router=by_tokens"},
                 "model.moe.router (by_tokens) is not a registered router; registered: by_token, ");
  expect_refused({"optim.name=adam"}, "optim.name (adam) is not a registered optimizer; registered: adamw, ");
  expect_refused({"optim.options=[{name: momentun, value: 1}]"},
                 "optim.options.0.name (momentun) is not an option of the optimizer heavy_ball; it has: momentum");
  expect_refused({"model.moe.router_options=[{name: shif, value: 1}]"},
                 "model.moe.router_options.0.name (shif) is not an option of the router by_token; it has: shift");
  expect_refused({"model.moe.router=top_k", "model.moe.router_options=[{name: shift, value: 1}]"},
                 "model.moe.router_options.0.name (shift) is not an option of the router top_k; it has none");
}

TEST(Extensions, SettingsIgnoredByTheRouterAreRefused) {
  expect_refused({"model.moe.bias_rate=0.1"},
                 "model.moe.bias_rate (0.1) must be 0 for the router by_token, whose selection has no bias");
  expect_refused(
      {"model.moe.selection_bias=true"},
      "model.moe.selection_bias (true) must be auto or false for the router by_token, whose selection has no "
      "bias");
  const std::string unread =
      " is not read by the router even, which computes weights from logits by its own rule: remove this key, or set "
      "model.moe.router: top_k";
  expect_refused({"model.moe.router=even", "model.moe.score=sigmoid"}, "model.moe.score (sigmoid)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.normalize=false"}, "model.moe.normalize (false)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.normalize_floor=0.5"},
                 "model.moe.normalize_floor (0.5)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.scale=2"}, "model.moe.scale (2)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.groups=2", "model.moe.group_score=best"},
                 "model.moe.group_score (best)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.groups=2", "model.moe.top_groups=2"},
                 "model.moe.groups (2)" + unread);
  expect_refused({"model.moe.router=even", "model.moe.groups=2", "model.moe.top_groups=2"},
                 "model.moe.top_groups (2)" + unread);
}

TEST(Extensions, AllIllegalSettingsAreReportedTogether) {
  const std::string problems = message_of(ExitCode::usage, [] {
    recipe_with({"model.moe.router=even", "model.moe.scale=2", "model.moe.router_options=[{name: frist, value: 1}]",
                 "optim.options=[{name: momentun, value: 1}]"});
  });
  for (const std::string key : {"model.moe.scale", "model.moe.router_options.0.name", "optim.options.0.name"})
    EXPECT_NE(problems.find(key + " ("), std::string::npos) << problems;
}

// A router's factory may read an option or the score rule only if the router's registration declares it.
TEST(Extensions, ReadingAnUndeclaredRuleOrOptionThrows) {
  const auto message_when = [](const std::function<void(const moe::RouterSpec&)>& read) {
    Extensions e = extended();
    e.add_router("sloppy", {.make = [&](const moe::RouterSpec& s, const Builder&) {
                   read(s);
                   return std::make_unique<Even>(s);
                 }});
    Recipe r = recipe_with({"model.moe.router=even", "model.moe.z_loss=0", "model.moe.aux_loss.coefficient=0"});
    r.model.moe.router = "sloppy";
    try {
      ModelInstance(r, e, self);
    } catch (const std::logic_error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_EQ(message_when([](const moe::RouterSpec& s) { s.rule(); }),
            "[router sloppy] reads the score rule; expected uses_score_rule in its declaration");
  EXPECT_EQ(message_when([](const moe::RouterSpec& s) { s.option("first", 0); }),
            "[options] the router sloppy reads the option first; expected an option that it declares");
}

TEST(Extensions, LossIsRefusedWhenTheRouterLacksItsInputs) {
  const auto step = [](const std::vector<std::string>& overrides) {
    std::vector<std::string> all{"model.moe.router=even", "model.moe.z_loss=0", "model.moe.aux_loss.coefficient=0"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    TrainingRun run(recipe_with(all), self, extended());
    run.step(documents_of(run.recipe));
  };
  EXPECT_NO_THROW(step({}));
  EXPECT_EQ(message_of(ExitCode::usage, [&] { step({"model.moe.z_loss=0.1"}); }),
            "model.moe.z_loss (0.1) must be 0 for the router even, which has no logits");
  EXPECT_EQ(message_of(ExitCode::usage, [&] { step({"model.moe.aux_loss.coefficient=0.1"}); }),
            "model.moe.aux_loss.coefficient (0.1) must be 0 for the router even, which has no scores");
}

TEST(Extensions, UnknownExpertIsReportedWithRouterAndRow) {
  TrainingRun run(recipe_with({"model.moe.router=even", "model.moe.z_loss=0", "model.moe.aux_loss.coefficient=0",
                               "model.moe.router_options=[{name: first, value: 3}]"}),
                  self, extended());
  if (!Device(run.instance.context).on_host()) GTEST_SKIP() << "the host does not check ids in device memory";
  try {
    run.step(documents_of(run.recipe));
    ADD_FAILURE() << "no error was thrown; expected an error that names expert 4";
  } catch (const std::logic_error& e) {
    EXPECT_STREQ(e.what(), "[router even] row 0 names expert 4, expected at least 0 and less than 4");
  }
}

TEST(Extensions, DuplicateNameIsRefused) {
  Extensions e = extended();
  EXPECT_THROW(e.add_router("top_k", {}), std::logic_error);
  EXPECT_THROW(e.optimizers.add("adamw", {}), std::logic_error);
  EXPECT_THROW(e.sources.add("synthetic", {}), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
