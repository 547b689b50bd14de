// Miniature run for the checkpoint tests: an embedding, experts, optimizer state, the bias of a router, and an empty
// tensor.
#pragma once

#include <map>

#include "framework/io/checkpoint_store.h"
#include "framework/io/checkpoint_writer.h"
#include "tests/io/io_testing.h"

namespace hexad::io::testing {

using Key = std::pair<std::string, Kind>;
using Model = std::map<Key, Tensor>;

/// Returns the tensors of the model at a step, with different contents for each step.
inline Model model_of(int64_t step, Device device) {
  const auto seed = static_cast<uint64_t>(100 * step);
  return {{{"embedding.weight", Kind::parameter}, random_bits({11, 8}, Dtype::bf16, device, seed)},
          {{"embedding.weight", Kind::main}, random_bits({11, 8}, Dtype::f32, device, seed + 1)},
          {{"experts.up", Kind::parameter}, random_bits({4, 6, 8}, Dtype::f32, device, seed + 2)},
          {{"experts.up", Kind::moment1}, random_bits({4, 6, 8}, Dtype::f32, device, seed + 3)},
          {{"experts.up", Kind::moment2}, random_bits({4, 6, 8}, Dtype::f64, device, seed + 4)},
          {{"router.bias", Kind::state}, random_bits({}, Dtype::i64, device, seed + 5)},
          {{"unused", Kind::parameter}, Tensor::empty({0, 8}, Dtype::f32, device)}};
}

inline RunState state_of(int64_t step) {
  RunState state;
  state.step = step;
  state.tokens = 4096 * step;
  state.seed = UINT64_MAX - 1;
  state.recipe = "model:\n  hidden: 8  # \"quoted\" and ünicode\n";
  state.data_position = R"({"epoch":1,"sample":12345})";
  state.layout = R"({"dp":2,"ep":2})";
  return state;
}

/// Returns the items that `rank` of `ranks` writes. Tensors whose name begins with "experts" are split along dimension
/// 0, and other tensors along their last dimension. One rank writes the whole tensor in two cases: `ranks` does
/// not divide the size of this dimension, or the tensor is a scalar or has no elements.
inline std::vector<ShardItem> items_of(const Model& model, int rank, int ranks) {
  std::vector<ShardItem> items;
  int owner = 0;
  for (const auto& [key, tensor] : model) {
    const auto& [name, kind] = key;
    const int dim = name.starts_with("experts") ? 0 : tensor.rank() - 1;
    Region region = whole(tensor.shape());
    if (tensor.numel() > 0 && dim >= 0 && tensor.dim(dim) % ranks == 0) {
      region.size[dim] /= ranks;
      region.begin[dim] = rank * region.size[dim];
    } else if (owner++ % ranks != rank) {
      continue;
    }
    items.push_back({name, kind, tensor.shape(), region, slice(tensor, region)});
  }
  return items;
}

/// Writes the shards of all ranks, one after the other, and commits the checkpoint.
inline void save(const CheckpointStore& store, int64_t step, int ranks, Device device) {
  const Model model = model_of(step, device);
  CheckpointWriter writer(store, step);
  writer.create();
  std::vector<std::string> parts;
  for (int r = 0; r < ranks; ++r) parts.push_back(writer.write_shard(r, ranks, items_of(model, r, ranks)));
  writer.commit(state_of(step), parts);
}

inline void expect_holds(Checkpoint checkpoint, int64_t step, Device device) {
  EXPECT_EQ(checkpoint.step(), step);
  for (const auto& [key, tensor] : model_of(step, device)) {
    SCOPED_TRACE(key.first);
    expect_bitwise(checkpoint.read(key.first, key.second, device), tensor);
  }
}

struct CheckpointTest : ::testing::Test {
  device::DeviceContext device;
  TempFolder folder;
  std::vector<std::string> warnings;
  StoreOptions options{.keep = 3, .warn = [this](const std::string& w) { warnings.push_back(w); }, .fault = {}};
  CheckpointStore store{folder / "checkpoints", options};
  const Resume automatic{};

  void expect_warned(const std::vector<std::string>& parts) {
    for (const std::string& part : parts) {
      const bool found =
          std::ranges::any_of(warnings, [&](const auto& w) { return w.find(part) != std::string::npos; });
      std::string all;
      for (const auto& w : warnings) all += "\n  " + w;
      EXPECT_TRUE(found) << "'" << part << "' is not in the warnings:" << all;
    }
  }
  std::string shard(int64_t step, const std::string& rank = "00000-of-00002") {
    return store.path(step) + "/shard-" + rank + ".safetensors";
  }
};

}  // namespace hexad::io::testing
