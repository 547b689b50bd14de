#include "tools/interop/window_keys.h"

#include <vector>

namespace hexad::interop {

using namespace base;

namespace {

constexpr const char* key = "layer_types";
constexpr const char* full = "full_attention";
constexpr const char* sliding = "sliding_attention";
constexpr const char* linear = "linear_attention";
constexpr const char* interval = "full_attention_interval";

/// Returns a list with true for each block that has full attention. The other blocks have the type `other`. Without
/// layer_types, every `usual`-th block has full attention.
std::vector<bool> blocks_with_full_attention(const Json& config, int64_t layers, const char* other, int64_t usual,
                                             const std::string& where) {
  std::vector<bool> blocks;
  const auto types = config.find(key);
  if (types == config.end() || types->is_null()) {
    for (int64_t l = 0; l < layers; ++l) blocks.push_back(is_nth(l, usual));
    return blocks;
  }
  if (!types->is_array() || static_cast<int64_t>(types->size()) != layers)
    fail(ExitCode::data, where, ": ", key, " is ", types->dump().substr(0, 80), ", expected an array of ", layers,
         " entries");
  for (const Json& type : *types) {
    if (type != full && type != other)
      fail(ExitCode::data, where, ": ", key, " has ", type.dump().substr(0, 80), ", expected ", full, " or ", other);
    blocks.push_back(type == full);
  }
  return blocks;
}

/// Returns the n for which exactly every n-th block of the list has full attention; 0 if no block has full attention.
/// Throws Error(data) if there is no such n.
int64_t period_of_full_attention(const std::vector<bool>& wanted, const std::string& where) {
  const auto every = period_of(wanted);
  if (!every)
    fail(ExitCode::data, where, ": ", key, " names blocks with ", full,
         " that are not every n-th block for any n: ", marked_blocks(wanted),
         "; expected blocks n, 2n, 3n and so on, counted from 1");
  return *every;
}

}  // namespace

void read_windows(const Json& config, ModelKeys& keys, const std::string& where) {
  const int64_t layers = keys.integer("model.layers");
  const int64_t every = period_of_full_attention(blocks_with_full_attention(config, layers, sliding, 2, where), where);
  const auto window = config.find("sliding_window");
  if (every != 1 && window != config.end() && window->is_null())
    fail(ExitCode::data, where, ": sliding_window is null, expected a number of tokens, because some blocks have ",
         sliding);
  if (every == 1) keys.set("model.window", nullptr, where);
  keys.set("model.full_attention_every", every == 1 ? 0 : every, where);
}

void write_windows(OrderedJson& config, const ModelKeys& keys) {
  const bool windows = !keys["model.window"].is_null();
  OrderedJson types = OrderedJson::array();
  for (int64_t l = 0; l < keys.integer("model.layers"); ++l)
    types.push_back(!windows || is_nth(l, keys.integer("model.full_attention_every")) ? full : sliding);
  config[key] = std::move(types);
}

void read_delta_nets(const Json& config, ModelKeys& keys, const std::string& where) {
  const auto found = config.find(interval);
  int64_t usual = 4;
  if (found != config.end() && !found->is_null()) {
    if (!found->is_number_integer() || *found < 1)
      fail(ExitCode::data, where, ": ", interval, " is ", found->dump(), ", expected a whole number of at least 1");
    usual = found->get<int64_t>();
  }
  const int64_t layers = keys.integer("model.layers");
  const int64_t every =
      period_of_full_attention(blocks_with_full_attention(config, layers, linear, usual, where), where);
  if (every == 1)
    fail(ExitCode::data, where, ": no block has ", linear,
         ", expected at least one such block, because the keys linear_* describe its delta net");
  keys.set("model.full_attention_every", every, where);
}

void write_delta_nets(OrderedJson& config, const ModelKeys& keys) {
  OrderedJson types = OrderedJson::array();
  for (int64_t l = 0; l < keys.integer("model.layers"); ++l) types.push_back(keys.is_delta(l) ? linear : full);
  config[key] = std::move(types);
  config.erase(interval);
}

}  // namespace hexad::interop
