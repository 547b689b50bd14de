// A checkpoint saved under one layout loads under another, bit for bit. Other models and NaN are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <new>

#include "framework/io/checkpoint_writer.h"
#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/initial_weights.h"

namespace hexad::tests {

using namespace base;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;
const std::vector<std::string> with_states{"model.moe.bias_rate=0.05", "model.moe.aux_loss.scope=global_batch"};

struct Layout {
  int ranks = 1;
  ParallelConfig parallel{};
};
const Layout two{2, {.ep = 2}}, four{4, {.ep = 4}};

Recipe recipe_in(const Scratch& scratch, const ParallelConfig& parallel = {}) {
  Recipe r = small_recipe(with_states);
  r.run.dir = scratch.path();
  r.parallel = parallel;
  return r;
}

// Trains three steps under `layout` and saves. Returns the whole optimizer and router states.
TensorMap save_under(const Layout& layout, const Scratch& scratch) {
  TensorMap states;
  on_ranks(layout.ranks, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_in(scratch, layout.parallel), world);
    for (int s = 0; s < 3; ++s) run.step(documents_of(run.recipe));
    run.save();
    TensorMap all = run.states();
    if (world.rank() == 0) states = std::move(all);
  });
  return states;
}

TEST(CheckpointLayouts, LayoutsLoadCheckpointsOfEachOther) {
  const Layout layouts[] = {
      {},
      two,
      {4, {.tp = 2, .sp = true, .cp = 2, .ep = 4, .etp = 1}},
      {4, {.pp = 2, .tp = 2, .zero = 1}},
      {4, {.ep = 4, .zero = 3}},
      {4, {.tp = 4, .ep = 2, .etp = 2, .zero = 2}},  // two ranks hold each key/value head
      {2, {.cp = 2, .etp = 2, .zero = 1}},
      {4, {.pp = 2, .tp = 2, .order = "pp-tp-cp-ep-dp", .ep = 2, .etp = 1, .zero = 1}},
  };
  for (const Layout& from : layouts) {
    const Scratch scratch;
    const TensorMap saved = save_under(from, scratch);
    for (const Layout& to : layouts) {
      SCOPED_TRACE(cat(describe(from.parallel, from.ranks), " -> ", describe(to.parallel, to.ranks)));
      on_ranks(to.ranks, [&](const comm::ProcessGroup& world) {
        TrainingRun run(recipe_in(scratch, to.parallel), world);
        run.load(scratch / "checkpoints/step-00000003");
        EXPECT_EQ(run.progress.step, 3);
        EXPECT_EQ(run.progress.tokens, 3 * 64);
        EXPECT_EQ(run.progress.next_sequence, 24);
        expect_bitwise(saved, run.states());
        for (const auto& [name, w] : run.weights()) {
          SCOPED_TRACE(name);
          expect_bitwise(saved.at(name + "/main"), w, Zeros::expected);
        }
      });
    }
  }
}

TEST(CheckpointLayouts, EveryExpertOfEveryRankIsInTheFile) {
  const Scratch scratch;
  const TensorMap saved = save_under(four, scratch);
  auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000003", io::Check::full);
  device::DeviceContext context;
  for (const char* weight : {"gate_up", "down"})
    for (const auto kind : {io::Kind::main, io::Kind::moment1, io::Kind::moment2}) {
      const std::string name = cat("layers.1.moe.experts.", weight, ".weight");
      EXPECT_EQ(checkpoint.record(name, kind).shape[0], 4);
      EXPECT_EQ(checkpoint.record(name, kind).pieces.size(), 4u);
      const Tensor all = checkpoint.read(name, kind, context);
      expect_bitwise(saved.at(cat(name, "/", io::name_of(kind))), all);
      for (int64_t e = 1; e < 4; ++e)
        EXPECT_NE(all.slice(0, e, e + 1).to_vector<double>(), all.slice(0, 0, 1).to_vector<double>());
    }
}

TEST(CheckpointLayouts, ReplicatedTensorsAreWrittenOnce) {
  const Scratch scratch;
  save_under({4, {.ep = 2}}, scratch);
  const auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000003", io::Check::full);
  size_t cut = 0;
  for (const auto& t : checkpoint.manifest().tensors) {
    const bool of_experts = t.name.find(".experts.") != std::string::npos;
    EXPECT_EQ(t.pieces.size(), of_experts ? 2u : 1u) << t.name;
    cut += of_experts;
  }
  EXPECT_GT(cut, 0u);
  EXPECT_LT(cut, checkpoint.manifest().tensors.size());
}

TEST(CheckpointLayouts, AnotherModelIsRefusedWithTheDifference) {
  const Scratch scratch;
  save_under({}, scratch);
  const std::string folder = scratch / "checkpoints/step-00000003";
  Recipe recipe = recipe_in(scratch);
  recipe.model.hidden = 32, recipe.model.vocab = 37;
  TrainingRun run(recipe, self);
  EXPECT_EQ(message_of(ExitCode::usage, [&] { run.load(folder); }),
            "cannot continue from " + folder +
                ", because the recipe has changed:\n  model.hidden: 16 -> 32\n  model.vocab: 31 -> 37\n"
                "use another run.dir, or set train.init_from to start a new run from these weights");
}

TEST(CheckpointLayouts, AnotherSeedIsRefused) {
  const Scratch scratch;
  save_under({}, scratch);
  Recipe recipe = recipe_in(scratch);
  recipe.train.seed = 4;
  TrainingRun run(recipe, self);
  EXPECT_NE(
      message_of(ExitCode::usage, [&] { run.load(scratch / "checkpoints/step-00000003"); }).find("train.seed: 3 -> 4"),
      std::string::npos);
}

TEST(CheckpointLayouts, NanWeightIsNotSaved) {
  const Scratch scratch;
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    TrainingRun run(recipe_in(scratch, two.parallel), world);
    run.step(documents_of(run.recipe));
    if (world.rank() == 1)
      change<double>(run.instance.parameters.find("layers.1.moe.experts.gate_up.weight").local(),
                     [](std::span<double> values) { values[5] = std::nan(""); });
    EXPECT_EQ(
        message_of(ExitCode::numeric, [&] { run.save(); }),
        "checkpoint of step 1 was not saved: rank 1: main: 'layers.1.moe.experts.gate_up.weight' [2, 2, 12, 16] holds "
        "nan at element 5; expected finite values");
  });
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/step-00000001"));
}

// A save needs memory, because it computes main weights from rests.
TEST(CheckpointLayouts, LackOfMemoryForASavedTensorIsNoNumericError) {
  const Scratch scratch;
  TrainingRun run(small_recipe({"run.dir=" + scratch.path(), "train.precision=bf16", "optim.main_weights=rest",
                                "memory.limit_bytes=33554432"}),
                  self);
  const Device device(run.instance.context);
  if (!device.on_host()) GTEST_SKIP() << "main weights are computed in host memory, which has no limit";
  run.step(documents_of(run.recipe));
  // The memory of `spare` suffices for the message, but not for the main weights of a layer's gates and ups, 6144
  // bytes.
  Tensor spare = Tensor::empty({4096}, Dtype::u8, device);
  std::vector<Tensor> filler;
  for (int64_t bytes = 1 << 20; bytes >= 512; bytes /= 2) {
    const auto fill = [&] {
      for (;;) filler.push_back(Tensor::empty({bytes}, Dtype::u8, device));
    };
    message_of(ExitCode::resource, fill);
  }
  spare = Tensor();
  const std::string message = message_of(ExitCode::resource, [&] { run.save(); });
  EXPECT_TRUE(message.starts_with("checkpoint of step 1 was not saved: out of memory: ")) << message;
}

TEST(CheckpointLayouts, DamagedGenerationThatPreventsASaveIsAnErrorOfData) {
  const Scratch scratch;
  TrainingRun run(recipe_in(scratch), self);
  const std::string file = scratch / "generation";
  io::StoreOptions options;
  options.generation = io::RunGeneration::take(scratch.path());
  std::ofstream(file) << "x\n";
  const Checkpointer checkpoints(run.recipe, self, options);
  const std::string message =
      message_of(ExitCode::data, [&] { checkpoints.save(run.progress, run.instance, run.optimizer); });
  EXPECT_TRUE(message.starts_with(cat("checkpoint of step 0 was not saved: ", file, ": contains 'x', expected")))
      << message;
  EXPECT_FALSE(std::filesystem::exists(scratch / "checkpoints/step-00000000"));
}

TEST(CheckpointLayouts, LackOfMemoryOnOneRankIsThrownByAllRanksThatOpen) {
  const Scratch scratch;
  save_under(two, scratch);
  on_ranks(2, [&](const comm::ProcessGroup& world) {
    const base::FileWork work;
    if (world.rank() == 1) work.on_move([](uint64_t) { throw std::bad_alloc(); });
    EXPECT_EQ(
        message_of(ExitCode::resource, [&] { open_verified(scratch / "checkpoints/step-00000003", world, work); }),
        "out of memory");
  });
}

// open_verified() verifies files on all ranks together. In a resharded load, each rank would have to read whole pieces
// to verify them again.
TEST(CheckpointLayouts, FilesVerifiedTogetherAreNotVerifiedAgain) {
  const Scratch scratch;
  save_under(two, scratch);
  const std::string folder = scratch / "checkpoints/step-00000003",
                    shard = folder + "/shard-00001-of-00002.safetensors";
  const auto flip_last_byte = [&] {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const auto byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(byte);
  };
  const auto last_tensor = [](io::Checkpoint& checkpoint) {
    const io::TensorRecord* last = nullptr;
    const std::string stored =
        io::SafetensorsFile::open(checkpoint.folder() + "/shard-00001-of-00002.safetensors").tensors().back().name;
    for (const io::TensorRecord& t : checkpoint.manifest().tensors)
      for (const io::Piece& piece : t.pieces)
        if (piece.shard == 1 && piece.stored == stored) last = &t;
    device::DeviceContext context;
    return checkpoint.read(last->name, last->kind, context);
  };
  on_ranks(3, [&](const comm::ProcessGroup& world) {
    device::DeviceContext context;
    io::Checkpoint checkpoint = open_verified(folder, world, {});
    world.any(false, context);
    if (world.rank() == 0) flip_last_byte();
    world.any(false, context);
    EXPECT_NO_THROW(last_tensor(checkpoint));
    world.any(false, context);
    const std::string message = message_of(ExitCode::data, [&] { open_verified(folder, world, {}); });
    EXPECT_NE(message.find(shard), std::string::npos) << message;
    EXPECT_NE(message.find("is damaged"), std::string::npos) << message;
  });
  io::Checkpoint alone = io::Checkpoint::open(folder, io::Check::quick);
  EXPECT_NE(message_of(ExitCode::data, [&] { last_tensor(alone); }).find("is damaged"), std::string::npos)
      << "a checkpoint that open_verified() did not open is verified when it is read";
}

// This program does not save NaN, but another program may.
TEST(CheckpointLayouts, NanWeightIsReportedAtLoadByName) {
  const Scratch scratch;
  save_under({}, scratch);
  auto good = io::Checkpoint::open(scratch / "checkpoints/step-00000003", io::Check::full);
  device::DeviceContext context;
  std::vector<io::ShardItem> items;
  for (const auto& t : good.manifest().tensors) {
    const Tensor tensor = good.read(t.name, t.kind, context);
    if (t.name == "layers.1.moe.router.weight") tensor.data<double>()[5] = std::nan("");
    items.push_back({t.name, t.kind, t.shape, t.pieces.front().region, tensor});
  }
  const io::CheckpointStore store(scratch / "elsewhere");
  io::CheckpointWriter writer(store, 3);
  writer.create();
  const std::vector<std::string> parts{writer.write_shard(0, 1, items)};
  writer.commit(good.manifest().run, parts);
  TrainingRun run(recipe_in(scratch), self);
  EXPECT_EQ(message_of(ExitCode::numeric, [&] { run.load(store.path(3)); }),
            store.path(3) + ": 'layers.1.moe.router.weight' [4, 16] holds nan at element 5; expected finite values");
}

// A new run may begin with weights saved under another precision and optimizer.
TEST(CheckpointLayouts, WeightsAloneLoadIntoAnotherPrecision) {
  const Scratch scratch;
  const TensorMap saved = save_under(two, scratch);
  auto checkpoint = io::Checkpoint::open(scratch / "checkpoints/step-00000003", io::Check::full);
  Recipe recipe = recipe_in(scratch);
  recipe.train.precision = Precision::bf16, recipe.optim.name = "sgd";
  TrainingRun run(recipe, self);
  InitialWeights(checkpoint, run.recipe).load(run.instance, run.optimizer);
  for (const auto& p : run.instance.parameters) {
    const auto want = values_of(saved.at(p->name() + "/main")), got = values_of(p->local());
    for (size_t i = 0; i < want.size(); ++i) {
      const auto f32 = static_cast<float>(want[i]);
      ASSERT_EQ(got[i], p->local().dtype() == Dtype::bf16 ? static_cast<double>(bf16(f32)) : static_cast<double>(f32))
          << p->name();
    }
  }
}

}  // namespace
}  // namespace hexad::tests
