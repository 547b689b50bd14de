#include "tools/interop/layer_pattern.h"

#include <algorithm>

namespace hexad::interop {

using namespace base;

namespace {

constexpr int64_t max_blocks = int64_t{1} << 31;

int64_t whole_number(const Json& config, const char* key, int64_t usual, int64_t least, const std::string& where) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return usual;
  if (!found->is_number_integer() || *found < least || *found > max_blocks)
    fail(ExitCode::data, where, ": ", key, " is ", found->dump(), ", expected a whole number from ", least, " to ",
         max_blocks);
  return found->get<int64_t>();
}

std::vector<bool> sparse_steps(const Json& config, int64_t layers, const std::string& where) {
  const int64_t step = whole_number(config, "decoder_sparse_step", 1, 1, where);
  std::vector<int64_t> dense;
  if (const auto list = config.find("mlp_only_layers"); list != config.end() && !list->is_null()) {
    const bool numbers =
        list->is_array() && std::ranges::all_of(*list, [](const Json& v) { return v.is_number_integer(); });
    if (!numbers)
      fail(ExitCode::data, where, ": mlp_only_layers is ", list->dump(), ", expected a list of whole numbers");
    dense = list->get<std::vector<int64_t>>();
  }
  std::vector<bool> moe;
  for (int64_t l = 0; l < layers; ++l) moe.push_back((l + 1) % step == 0 && std::ranges::find(dense, l) == dense.end());
  return moe;
}

std::vector<bool> between_start_and_end(const Json& config, int64_t layers, const std::string& where) {
  const int64_t start = whole_number(config, "moe_layer_start_index", 1, 0, where);
  const int64_t end = whole_number(config, "moe_layer_end_index", -1, -1, where);
  const int64_t interval = whole_number(config, "moe_layer_interval", 1, 1, where);
  std::vector<bool> moe;
  for (int64_t l = 0; l < layers; ++l) moe.push_back((l + 1) % interval == 0 && l >= start && (end == -1 || l <= end));
  return moe;
}

std::vector<bool> interleaved_blocks(const Json& config, int64_t layers, const std::string& where) {
  std::vector<bool> moe(layers, false);
  const auto list = config.find("moe_layers");
  if (list == config.end() || list->is_null()) {
    const int64_t step = whole_number(config, "interleave_moe_layer_step", 1, 1, where);
    for (int64_t l = step - 1; l < layers; l += step) moe[l] = true;
    return moe;
  }
  const auto is_layer = [&](const Json& v) { return v.is_number_integer() && v >= 0 && v < layers; };
  if (!list->is_array() || !std::ranges::all_of(*list, is_layer))
    fail(ExitCode::data, where, ": moe_layers is ", list->dump().substr(0, 80),
         ", expected a list of whole numbers from 0 to ", layers - 1);
  for (const Json& layer : *list) moe[layer.get<int64_t>()] = true;
  return moe;
}

std::vector<bool> blocks_with_experts(const Json& config, LayerPattern pattern, int64_t layers,
                                      const std::string& where) {
  switch (pattern) {
    case LayerPattern::none:
      return std::vector<bool>(layers, false);
    case LayerPattern::all:
      return std::vector<bool>(layers, true);
    case LayerPattern::sparse_step:
      return sparse_steps(config, layers, where);
    case LayerPattern::first_dense: {
      std::vector<bool> moe(layers, true);
      const int64_t dense = whole_number(config, "first_k_dense_replace", 1, 0, where);
      for (int64_t l = 0; l < std::min(dense, layers); ++l) moe[l] = false;
      return moe;
    }
    case LayerPattern::start_and_end:
      return between_start_and_end(config, layers, where);
    case LayerPattern::interleaved:
      return interleaved_blocks(config, layers, where);
  }
  fail_invariant(cat("[interop] the pattern of layers is ", static_cast<int>(pattern), "; expected a LayerPattern"));
}

}  // namespace

bool is_nth(int64_t layer, int64_t every) { return every > 0 && layer % every == every - 1; }

std::optional<int64_t> period_of(const std::vector<bool>& marks) {
  const auto first = std::ranges::find(marks, true) - marks.begin();
  const int64_t every = first == std::ssize(marks) ? 0 : first + 1;
  for (int64_t l = 0; l < std::ssize(marks); ++l)
    if (marks[l] != is_nth(l, every)) return {};
  return every;
}

std::string marked_blocks(const std::vector<bool>& marks) {
  std::string text;
  int64_t listed = 0;
  for (int64_t l = 0; l < std::ssize(marks); ++l) {
    if (!marks[l]) continue;
    if (listed++ == 10) return text + ", ...";
    text += cat(text.empty() ? "" : ", ", l + 1);
  }
  return text;
}

std::vector<std::string_view> keys_of(LayerPattern pattern) {
  switch (pattern) {
    case LayerPattern::sparse_step:
      return {"decoder_sparse_step", "mlp_only_layers"};
    case LayerPattern::first_dense:
      return {"first_k_dense_replace"};
    case LayerPattern::start_and_end:
      return {"moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"};
    case LayerPattern::interleaved:
      return {"moe_layers", "interleave_moe_layer_step"};
    case LayerPattern::none:
    case LayerPattern::all:
      break;
  }
  return {};
}

void read_pattern(const Json& config, LayerPattern pattern, ModelKeys& keys, const std::string& where) {
  if (pattern == LayerPattern::none) return;
  const int64_t layers = keys.integer("model.layers");
  const std::vector<bool> wanted = blocks_with_experts(config, pattern, layers, where);
  std::string names;
  for (const std::string_view key : keys_of(pattern)) names += cat(names.empty() ? "" : ", ", key);
  // For each value of `every`, the first block with experts determines dense_layers.
  const int64_t first = std::ranges::find(wanted, true) - wanted.begin();
  if (first == layers)
    fail(ExitCode::data, where, ": according to ", names, ", none of the ", layers,
         " blocks has experts, expected at least one");
  for (int64_t every = 1; every <= first + 1; ++every) {
    keys.set("model.moe.dense_layers", first - (every - 1), where);
    keys.set("model.moe.every", every, where);
    bool same = true;
    for (int64_t l = 0; l < layers && same; ++l) same = keys.is_moe(l) == wanted[l];
    if (same) return;
  }
  fail(ExitCode::data, where, ": ", names, " describe blocks with experts at unequal distances (blocks ",
       marked_blocks(wanted), "), expected equal distances after the first dense blocks");
}

void write_pattern(OrderedJson& config, LayerPattern pattern, const ModelKeys& keys) {
  const int64_t layers = keys.integer("model.layers");
  std::vector<int64_t> dense, moe;
  for (int64_t l = 0; l < layers; ++l) (keys.is_moe(l) ? moe : dense).push_back(l);
  switch (pattern) {
    case LayerPattern::none:
    case LayerPattern::all:
      return;  // write_config() finds differences when it reads the result again
    case LayerPattern::sparse_step:
      config["decoder_sparse_step"] = 1;
      config["mlp_only_layers"] = dense;
      return;
    case LayerPattern::first_dense:
      config["first_k_dense_replace"] = keys.integer("model.moe.dense_layers");
      return;
    case LayerPattern::start_and_end:
      config["moe_layer_start_index"] = keys.integer("model.moe.dense_layers");
      config["moe_layer_end_index"] = layers - 1;
      config["moe_layer_interval"] = keys.integer("model.moe.every");
      return;
    case LayerPattern::interleaved:
      config["moe_layers"] = moe;
      config["interleave_moe_layer_step"] = keys.integer("model.moe.every");
      return;
  }
}

}  // namespace hexad::interop
