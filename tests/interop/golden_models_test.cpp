// Golden models: small random models of several families (tools/golden/models.sh). The imported model computes the
// logits of transformers, and for some families the gradients. Its export has the same tensors and config files. The
// test also appends a line for each family to FILE if HEXAD_INTEROP_TABLE=FILE is set. tools/golden/interop_table.sh
// makes the table in docs/interop.md from these lines.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "framework/io/safetensors.h"
#include "parallel/comm/self_group.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

// Sums in another order, and rotary angles from tables in f32, differ from the reference by rounding.
constexpr double logit_tolerance = 1e-5, loss_tolerance = 1e-6, gradient_tolerance = 1e-4;

const std::vector<std::string> with_gradients{
    "qwen3_moe", "qwen3_next",  "qwen3_5_moe_text", "deepseek_v3", "deepseek_v2", "gpt_oss", "glm4_moe",
    "mixtral",   "llama4_text", "arctic",           "phimoe",      "dbrx",        "llama"};
// The reference results of these families are in f64, because delta nets amplify rounding in f32 beyond the tolerance.
const std::vector<std::string> in_double{"qwen3_next", "qwen3_5_moe_text", "qwen3_5_text"};

/// Returns the largest difference relative to the largest expected value. Returns infinity if the sizes differ or an
/// actual value is NaN.
double difference(const std::vector<double>& expected, const std::vector<double>& actual) {
  if (expected.size() != actual.size()) return INFINITY;
  double largest = 0, apart = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    apart = std::max(apart, std::isnan(actual[i]) ? INFINITY : std::abs(expected[i] - actual[i]));
  }
  return largest == 0 ? apart : apart / largest;
}

/// Reference results of transformers for a golden model.
struct Reference {
  explicit Reference(const std::string& family)
      : file(io::SafetensorsFile::open(golden_folder(family) + "/reference.safetensors")),
        ids(file.read("ids", memory).to_vector<int32_t>()),
        sequences(file.info("ids").shape[0]),
        length(file.info("ids").shape[1]) {}

  std::vector<double> values(const std::string& name) { return values_of(file.read(name, memory)); }
  /// Returns the tokens as training data: each token of a sequence, except the last, predicts the next token.
  FixedSource source() const {
    data::Batch batch(sequences, length);
    batch.ids = ids, batch.targets = ids;
    for (size_t i = 0; i < ids.size(); ++i) batch.targets[i] = (i + 1) % length == 0 ? data::ignored : ids[i + 1];
    std::fill(batch.last.begin(), batch.last.end(), static_cast<int32_t>(length));
    return FixedSource(std::move(batch));
  }

  device::DeviceContext memory;
  io::SafetensorsFile file;
  std::vector<int32_t> ids;
  int64_t sequences, length;
};

class GoldenModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { report_ = interop::import_model(golden_folder(GetParam()), imported()); }

  std::string imported() const { return scratch_ / "imported"; }
  Recipe recipe() const {
    return recipe_of(read_text(imported() + "/recipe.yaml"),
                     {"batch.global=2", "batch.micro=2", "data.synthetic=true", "train.threads=1", "train.steps=10",
                      "optim.schedule=constant", "model.moe.aux_loss.coefficient=0",
                      base::cat("train.precision=", is_in(in_double) ? "f64" : "f32")});
  }
  bool is_in(const std::vector<std::string>& families) const {
    return std::ranges::find(families, GetParam()) != families.end();
  }
  double logit_difference();
  double gradient_difference();
  bool exported_unchanged() const;

  Scratch scratch_;
  interop::ImportReport report_;
  comm::SelfGroup alone_;
};

double GoldenModels::logit_difference() {
  Reference reference(GetParam());
  TrainingRun run(recipe(), alone_);
  run.init_from(imported());
  const FixedSource source = reference.source();
  const MicroBatch batch = make_micro_batch(source.batch(0, reference.sequences), 0, reference.sequences,
                                            run.instance.context, {}, 0, run.instance.model.config().attention_chunk);
  const auto policy = keep_policy();
  Tape tape(run.instance.context.compute(), *policy, Tape::Mode::forget);
  return difference(reference.values("logits"), values_of(run.instance.model.logits(tape, {.batch = batch})));
}

double GoldenModels::gradient_difference() {
  Reference reference(GetParam());
  TrainingRun run(recipe(), alone_);
  run.init_from(imported());
  const double loss = run.step(reference.source()).loss;
  EXPECT_LE(difference(reference.values("loss"), {loss}), loss_tolerance) << "loss " << loss;
  // The golden gradients are stored in the form of a model, so they are imported like weights.
  const std::string folder = scratch_ / "gradients";
  interop::import_model(golden_folder(GetParam()) + "/gradients", folder);
  io::Checkpoint expected = io::Checkpoint::open(folder, io::Check::full);
  double largest = 0;
  for (const auto& [name, gradient] : run.gradients()) {
    const Tensor wanted = expected.read(name, io::Kind::main, reference.memory);
    const double apart = difference(values_of(wanted), values_of(gradient));
    EXPECT_LE(apart, gradient_tolerance) << name;
    largest = std::max(largest, apart);
  }
  return largest;
}

bool GoldenModels::exported_unchanged() const {
  const std::string folder = scratch_ / "exported";
  io::Checkpoint checkpoint = io::Checkpoint::open(imported(), io::Check::full);
  interop::export_model(checkpoint, folder);
  const RawTensors before = tensors_of(golden_folder(GetParam())), after = tensors_of(folder);
  EXPECT_EQ(before.size(), after.size());
  bool same = before.size() == after.size();
  for (const auto& [name, tensor] : before) {
    const auto found = after.find(name);
    const bool equal = found != after.end() && found->second.dtype == tensor.dtype &&
                       found->second.shape == tensor.shape && found->second.bytes == tensor.bytes;
    EXPECT_TRUE(equal) << name;
    same = same && equal;
  }
  for (const char* name : {"/config.json", "/generation_config.json"}) {
    const bool equal = read_text(golden_folder(GetParam()) + name) == read_text(folder + name);
    EXPECT_TRUE(equal) << name;
    same = same && equal;
  }
  return same;
}

TEST_P(GoldenModels, LogitsGradientsAndExportMatchTransformers) {
  const double logits = logit_difference();
  EXPECT_LE(logits, logit_tolerance);
  const double gradients = is_in(with_gradients) ? gradient_difference() : NAN;
  const bool same = exported_unchanged();
  EXPECT_TRUE(same);
  const char* table = std::getenv("HEXAD_INTEROP_TABLE");
  if (!table) return;
  std::ofstream(table, std::ios::app) << GetParam() << ' ' << report_.parameters << ' ' << logits << ' ' << gradients
                                      << ' ' << (same ? "bitwise" : "differs") << '\n';
}
INSTANTIATE_TEST_SUITE_P(, GoldenModels,
                         testing::Values("qwen3_moe", "qwen2_moe", "qwen3_next", "qwen3_5_moe_text", "olmoe",
                                         "ernie4_5_moe", "glm4_moe", "deepseek_v3", "deepseek_v2", "mixtral",
                                         "minimax_m2", "gpt_oss", "llama4_text", "arctic", "phimoe", "dbrx", "llama",
                                         "qwen3_5_text", "qwen3", "gpt2"),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace hexad::tests
