// Manifest of a checkpoint: its position in the run, its tensors, and the files that hold their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/io/region.h"

namespace hexad::io {

using base::size_of;

/// Role of a tensor for its named parameter; (name, kind) identifies a tensor of a checkpoint. `main` is the
/// optimizer's f32 copy. `state` is any other saved state, such as the balancing bias.
enum class Kind : uint8_t { parameter, main, moment1, moment2, state };
std::string_view name_of(Kind kind);

/// A rectangle of a tensor, stored as one tensor of a shard.
struct Piece {
  size_t shard;        // index into Manifest::shards
  std::string stored;  // name in the shard
  Region region;       // part of the global tensor
  std::string digest;  // XXH3-128 of the bytes
};

struct TensorRecord {
  std::string name;
  Kind kind;
  Dtype dtype;
  Shape shape;                // shape of the global tensor
  std::vector<Piece> pieces;  // disjoint; together they cover the tensor

  int64_t bytes() const { return shape.numel() * size_of(dtype); }
};

struct ShardRecord {
  std::string file;  // name in the checkpoint's folder
  int64_t bytes;
  std::string digest;
};

/// Position of the run. The JSON texts belong to other modules; a checkpoint preserves them as equal JSON.
struct RunState {
  int64_t step = 0;
  int64_t tokens = 0;  // tokens trained on since the start of training
  uint64_t seed = 0;
  std::string recipe;                  // resolved recipe, YAML
  std::string data_position = "null";  // JSON
  std::string random_state = "null";   // JSON; counter-based random numbers need only seed and step
  std::string auto_choices = "null";   // JSON: values of `auto` keys, so that a resumed run is bitwise identical
  std::string layout = "null";         // JSON: the parallel layout of the saving run, for people to read
};

struct Manifest {
  RunState run;
  int64_t sequence =
      1;  // number of this save in the run. The highest number is the newest, even after a return to an earlier step
  std::vector<ShardRecord> shards;
  std::vector<TensorRecord> tensors;  // by name, then kind
};

inline constexpr int64_t manifest_version = 1;
/// Maximum size of a manifest.json that a reader accepts.
inline constexpr int64_t max_manifest_bytes = int64_t{1} << 30;

/// Returns the text of manifest.json, which contains its own digest.
std::string manifest_to_json(const Manifest& manifest);
/// Parses manifest.json. Throws Error(data) beginning with `where` if the text is damaged, from a newer version, or
/// inconsistent. Inconsistent means: pieces outside their tensor or not covering it, shard names outside the folder.
Manifest manifest_from_json(std::string_view text, const std::string& where);
/// Checks a text before the writer writes it. Throws Error(resource) beginning with `where` if a reader would reject
/// `text`, because of its contents or because it has more than `limit` bytes.
void require_readable(std::string_view text, const std::string& where, int64_t limit = max_manifest_bytes);

/// Contents of the shard that one rank wrote; sent between ranks as text.
struct ShardPart {
  int index, count;  // shard `index` of `count`
  ShardRecord shard;
  std::vector<TensorRecord> tensors;  // with only the pieces of this shard
};
std::string part_to_json(const ShardPart& part);
/// Merges the parts of all writers. Throws std::logic_error if a shard is missing or given twice, if ranks disagree
/// about a tensor, or if its pieces do not tile it. Such a checkpoint could not be loaded.
Manifest merge_parts(const RunState& run, std::span<const std::string> parts);

}  // namespace hexad::io
