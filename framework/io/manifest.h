// Manifest of a checkpoint: its position in the run, its tensors, and the bytes that hold them.
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
/// optimizer's f32 copy; `state` is anything else that a run must remember, such as the balancing bias.
enum class Kind : uint8_t { parameter, main, moment1, moment2, state };
std::string_view name_of(Kind kind);

/// A rectangle of a tensor, stored whole as one tensor of a shard.
struct Piece {
  size_t shard;        // index into Manifest::shards
  std::string stored;  // its name there
  Region region;       // which part of the global tensor
  std::string digest;  // XXH3-128 of its bytes
};

struct TensorRecord {
  std::string name;
  Kind kind;
  Dtype dtype;
  Shape shape;                // of the global tensor
  std::vector<Piece> pieces;  // they tile it

  int64_t bytes() const { return shape.numel() * size_of(dtype); }
};

struct ShardRecord {
  std::string file;  // inside the checkpoint's folder
  int64_t bytes;
  std::string digest;
};

/// Position of the run. The JSON texts belong to their owners; here they are only carried, as equal JSON.
struct RunState {
  int64_t step = 0;
  int64_t tokens = 0;  // seen since the start of training
  uint64_t seed = 0;
  std::string recipe;                  // the resolved YAML
  std::string data_position = "null";  // JSON
  std::string random_state = "null";   // JSON; counter-based numbers need no more than seed and step
  std::string auto_choices = "null";   // JSON: what every `auto` of the recipe became, so that resuming stays bitwise
  std::string layout = "null";         // JSON: the parallel layout that wrote it, for people
};

struct Manifest {
  RunState run;
  int64_t sequence =
      1;  // counts the saves of a run; the highest is the newest, also after going back to an earlier step
  std::vector<ShardRecord> shards;
  std::vector<TensorRecord> tensors;  // by name, then kind
};

inline constexpr int64_t manifest_version = 1;
/// Largest manifest.json that a reader accepts.
inline constexpr int64_t max_manifest_bytes = int64_t{1} << 30;

/// The text of manifest.json; carries a digest of itself.
std::string manifest_to_json(const Manifest& manifest);
/// Throws Error(data) beginning with `where` when the text is damaged, from a newer version, or claims the impossible:
/// pieces outside their tensor or not adding up to it, shard names that leave the folder.
Manifest manifest_from_json(std::string_view text, const std::string& where);
/// For the writer, before it writes a byte: throws Error(resource) beginning with `where` when a reader would refuse
/// `text`, for its contents or because it has more than `limit` bytes.
void require_readable(std::string_view text, const std::string& where, int64_t limit = max_manifest_bytes);

/// Contents of one shard by one writer, as text that travels between ranks.
struct ShardPart {
  int index, count;  // shard `index` of `count`
  ShardRecord shard;
  std::vector<TensorRecord> tensors;  // with only this shard's pieces
};
std::string part_to_json(const ShardPart& part);
/// Merges the parts of all writers. Throws std::logic_error when a shard is missing or given twice, when ranks disagree
/// about a tensor, or when its pieces do not tile it: the checkpoint would not load.
Manifest merge_parts(const RunState& run, std::span<const std::string> parts);

}  // namespace hexad::io
