// Compares results with PyTorch's (tests/golden/README.md): logits, losses, every gradient and the gradient norm of the
// first step. For the decoder, also compares the losses and norms of ten steps of AdamW.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include <nlohmann/json.hpp>

#include "framework/io/safetensors.h"
#include "framework/tensor/host_read.h"
#include "parallel/comm/self_group.h"
#include "tests/support/stack.h"
#include "tests/training/training.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

// The two f64 computations evaluate the same formulas in different orders. Ten optimizer steps amplify the difference.
constexpr double f64_tolerance = 1e-10;

struct Golden {
  explicit Golden(const std::string& name)
      : tensors(io::SafetensorsFile::open(HEXAD_SOURCE_DIR "/tests/golden/" + name + ".safetensors")),
        facts(nlohmann::json::parse(std::ifstream(HEXAD_SOURCE_DIR "/tests/golden/" + name + ".json"))) {}

  std::vector<int32_t> integers(const std::string& name) { return tensors.read(name, memory).to_vector<int32_t>(); }
  // Returns all tensors whose name begins with `prefix`, by the names without this prefix.
  TensorMap all(const std::string& prefix) {
    TensorMap out;
    for (const auto& info : tensors.tensors())
      if (info.name.starts_with(prefix)) out[info.name.substr(prefix.size())] = tensors.read(info.name, memory);
    return out;
  }
  // Returns the batch as a source. Only the marked tokens are predicted if there is a loss mask.
  FixedSource source() {
    const Shape shape = tensors.info("ids").shape;
    data::Batch batch(shape[0], shape[1]);
    batch.ids = integers("ids"), batch.targets = integers("targets");
    if (tensors.contains("loss_mask")) {
      const std::vector<int32_t> mask = integers("loss_mask");
      for (size_t i = 0; i < mask.size(); ++i)
        if (!mask[i]) batch.targets[i] = data::ignored;
    }
    std::fill(batch.last.begin(), batch.last.end(), static_cast<int32_t>(shape[1]));
    return FixedSource(std::move(batch));
  }
  int64_t size(const std::string& key) const { return facts["model"][key].get<int64_t>(); }

  device::DeviceContext memory;
  io::SafetensorsFile tensors;
  nlohmann::json facts;
};

std::string key(const std::string& path, const nlohmann::json& value) { return path + "=" + value.dump(); }

Recipe decoder_recipe(const Golden& g, const std::vector<std::string>& overrides) {
  std::vector<std::string> o{"model.moe.normalize=true", "optim.schedule=constant",
                             key("batch.global", g.tensors.info("ids").shape[0]),
                             key("batch.micro", g.facts["micro_batch_sequences"])};
  const auto& m = g.facts["model"];
  for (const char* k : {"layers", "hidden", "heads", "kv_heads", "context", "vocab", "norm_eps", "rotary_theta"})
    o.push_back(key(std::string("model.") + k, m[k]));
  for (const char* k : {"experts", "top_k", "expert_hidden"}) o.push_back(key(std::string("model.moe.") + k, m[k]));
  o.push_back(key("model.moe.aux_loss.coefficient", m["aux_loss_coefficient"]));
  o.push_back(key("model.moe.z_loss", m["z_loss_coefficient"]));
  for (const char* k : {"lr", "beta1", "beta2", "eps", "weight_decay"})
    o.push_back(key(std::string("optim.") + k, g.facts["optimizer"][k]));
  o.push_back(key("optim.clip", g.facts["optimizer"]["clip_norm"]));
  o.insert(o.end(), overrides.begin(), overrides.end());
  return small_recipe(o);
}

Recipe encoder_recipe(const Golden& g, const std::vector<std::string>& overrides) {
  std::vector<std::string> o{"model.kind=encoder",
                             "model.norm=layer_norm",
                             "model.position=learned",
                             "model.mlp=gelu",
                             "model.bias=true",
                             "model.tied_embedding=true",
                             "model.kv_heads=auto",
                             "model.moe.experts=0",
                             key("batch.micro", g.tensors.info("ids").shape[0]),
                             key("batch.global", g.tensors.info("ids").shape[0])};
  for (const char* k : {"layers", "hidden", "heads", "context", "vocab", "mlp_hidden", "norm_eps"})
    o.push_back(key(std::string("model.") + k, g.facts["model"][k]));
  o.insert(o.end(), overrides.begin(), overrides.end());
  return small_recipe(o);
}

// Returns the golden tensor of `p`. PyTorch's model has a tensor for each part of `p` if `p` is a stack.
Tensor golden_tensor(const TensorMap& all, const Parameter& p) {
  const Stack& stack = p.spec().stack;
  if (stack.names.empty()) return all.at(p.name());
  std::vector<Tensor> entries;
  for (const std::string& name : stack.names) entries.push_back(all.at(name));
  return stack_of(entries, stack.dim);
}

// Run whose initial weights are the golden weights, rounded to the model's dtype. The optimizer is created after the
// weights are set.
struct GoldenRun {
  GoldenRun(Golden& g, const Recipe& r) : recipe(r), instance(recipe, Registry(), self) {
    const TensorMap weights = g.all("weights/");
    size_t used = 0;
    for (const auto& p : instance.parameters) {
      const Tensor w = golden_tensor(weights, *p);
      used += std::max<size_t>(1, p->spec().stack.names.size());
      EXPECT_EQ(w.shape(), p->global_shape()) << p->name();
      kernels::kernels(instance.context)
          .pointwise.copy(instance.context.compute(), p->local(), on_device(w, instance.context, Category::temporary));
    }
    EXPECT_EQ(weights.size(), used);
    optimizer.emplace(recipe.optim, instance.parameters);
    train.emplace(recipe, instance, *optimizer);
  }

  Tensor logits(const data::Source& source) {
    const MicroBatch batch =
        make_micro_batch(source.batch(0, recipe.batch.global), 0, recipe.batch.global, instance.context);
    const auto policy = keep_policy();
    Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
    return instance.model.logits(tape, {.batch = batch});
  }
  StepResult step(const data::Source& source, int64_t step) {
    return train->run(source, 0, step, step, recipe.optim.lr);
  }

  comm::SelfGroup self;
  Recipe recipe;
  ModelInstance instance;
  std::optional<optim::Optimizer> optimizer;
  std::optional<TrainStep> train;
};

// Returns `t` in f64, like the golden tensors.
Tensor widened(const Tensor& t, Device device, const Shape& shape) {
  const std::vector<double> values = values_of(t);
  return Tensor::from<double>(values, shape, device);
}

void expect_gradients(Golden& g, GoldenRun& run, double allowed) {
  const TensorMap expected = g.all("gradients/");
  for (const auto& p : run.instance.parameters) {
    const std::string& name = p->name();
    const Tensor& gradient = p->gradient();
    SCOPED_TRACE(name);
    // A bias of keys adds the same value to all scores of a query if there are no rotary positions. Therefore, the
    // gradient of the bias is zero up to rounding.
    if (name.ends_with("k.bias")) {
      for (double x : values_of(gradient)) EXPECT_LE(std::abs(x), allowed);
      continue;
    }
    expect_close(golden_tensor(expected, *p), widened(gradient, g.memory, gradient.shape()), allowed, Zeros::expected);
  }
}

void expect_near(double expected, double actual, double allowed, std::string_view what) {
  EXPECT_LE(std::abs(expected - actual), allowed * std::abs(expected))
      << what << " is " << actual << "; expected " << expected << " with a relative error of at most " << allowed;
}

double mean_over_layers(const StepResult& r, double RouterStatistics::*loss, int64_t micro_batches) {
  double sum = 0;
  for (const RouterStatistics& s : r.routers) sum += s.*loss;
  return sum / static_cast<double>(r.routers.size()) / static_cast<double>(micro_batches);
}

void expect_losses(const nlohmann::json& expected, const StepResult& r, int64_t micro_batches, double allowed) {
  expect_near(expected["cross_entropy"], r.loss, allowed, "cross-entropy");
  expect_near(expected["aux_loss"], mean_over_layers(r, &RouterStatistics::aux_loss, micro_batches), allowed,
              "auxiliary loss");
  expect_near(expected["z_loss"], mean_over_layers(r, &RouterStatistics::z_loss, micro_batches), allowed, "z-loss");
  expect_near(expected["grad_norm"], r.grad_norm, allowed, "gradient norm");
}

TEST(GoldenDecoder, LogitsMatchPyTorch) {
  Golden g("moe_decoder");
  GoldenRun run(g, decoder_recipe(g, {}));
  const Tensor expected = g.tensors.read("logits", g.memory);
  expect_close(expected, run.logits(g.source()).reshape(expected.shape()), f64_tolerance);
}

TEST(GoldenDecoder, TenStepsMatchPyTorch) {
  Golden g("moe_decoder");
  GoldenRun run(g, decoder_recipe(g, {}));
  const FixedSource source = g.source();
  ASSERT_EQ(g.facts["steps"].size(), 10u);
  for (int64_t s = 1; s <= 10; ++s) {
    SCOPED_TRACE(cat("step ", s));
    const StepResult result = run.step(source, s);
    expect_losses(g.facts["steps"][s - 1], result, 2, f64_tolerance);
    if (s == 1) expect_gradients(g, run, f64_tolerance);
  }
}

// Every layer rounds weights, activations and sums, so the allowed difference is proportional to the number of layers.
TEST(GoldenDecoder, FirstStepMatchesPyTorchUpToF32Rounding) {
  Golden g("moe_decoder");
  GoldenRun run(g, decoder_recipe(g, {"train.precision=f32"}));
  const double allowed = 4 * static_cast<double>(g.size("layers")) * tolerance(Dtype::f32, g.size("hidden"));
  const FixedSource source = g.source();
  const Tensor expected = g.tensors.read("logits", g.memory);
  expect_close(expected, widened(run.logits(source), g.memory, expected.shape()), allowed);
  expect_losses(g.facts["steps"][0], run.step(source, 1), 2, allowed);
  expect_gradients(g, run, allowed);
}

// A token near a tie may choose another expert in bf16 than in f64. Both choices are correct. Therefore, the test
// compares only losses and the norm, and no whole tensors.
TEST(GoldenDecoder, FirstStepLossesMatchPyTorchUpToBf16Rounding) {
  Golden g("moe_decoder");
  GoldenRun run(g, decoder_recipe(g, {"train.precision=bf16"}));
  const double allowed = static_cast<double>(g.size("layers")) * tolerance(Dtype::bf16, g.size("hidden"));
  expect_losses(g.facts["steps"][0], run.step(g.source(), 1), 2, allowed);
}

TEST(GoldenDecoder, Bf16LearnsAsPyTorchDoesInF64) {
  Golden g("moe_decoder");
  GoldenRun run(g, decoder_recipe(g, {"train.precision=bf16"}));
  const FixedSource source = g.source();
  double loss = 0;
  for (int64_t s = 1; s <= 10; ++s) loss = run.step(source, s).loss;
  EXPECT_NEAR(loss, g.facts["steps"][9]["cross_entropy"].get<double>(), 0.1);
}

class GoldenEncoder : public testing::TestWithParam<std::string> {
 protected:
  static Dtype dtype() { return dtype_from_name(GetParam()); }
  static double allowed(const Golden& g) {
    if (dtype() == Dtype::f64) return f64_tolerance;
    // Every activation is rounded to the dtype. In bf16, the sums in f32 add almost no error.
    return 8 * static_cast<double>(g.size("layers")) * tolerance(dtype(), g.size("mlp_hidden"));
  }
};

TEST_P(GoldenEncoder, LogitsLossAndGradientsMatchPyTorch) {
  Golden g("encoder");
  GoldenRun run(g, encoder_recipe(g, {"train.precision=" + GetParam()}));
  const FixedSource source = g.source();
  const Tensor expected = g.tensors.read("logits", g.memory);
  expect_close(expected, widened(run.logits(source), g.memory, expected.shape()), allowed(g));
  const StepResult result = run.step(source, 1);
  expect_near(g.facts["cross_entropy"], result.loss, allowed(g), "cross-entropy");
  expect_near(g.facts["grad_norm"], result.grad_norm, allowed(g), "gradient norm");
  expect_gradients(g, run, allowed(g));
}
INSTANTIATE_TEST_SUITE_P(, GoldenEncoder, testing::Values("f64", "f32", "bf16"), [](const auto& i) { return i.param; });

}  // namespace
}  // namespace hexad::tests
