// Manifest of a checkpoint: its position in the run, its tensors, and the files that contain their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/file_work.h"
#include "framework/io/region.h"

namespace hexad::io {

using base::FileWork;
using base::size_of;

/// Role of a tensor. The pair (name, kind) identifies a tensor in a checkpoint.
/// - parameter: weight of the model. Training saves main weights instead.
/// - main: main weight of the optimizer, or a frozen weight in the dtype of the model
/// - moment1, moment2: the optimizer's moments of a weight
/// - state: any other saved state, such as the balancing bias
enum class Kind : uint8_t { parameter, main, moment1, moment2, state };
std::string_view name_of(Kind kind);

/// A rectangle of a tensor. It is stored as one tensor in a shard.
struct Piece {
  size_t shard;        // index into Manifest::shards
  std::string stored;  // name of the tensor in the shard
  Region region;       // part of the global tensor
  std::string digest;  // XXH3-128 of the bytes
};

struct TensorRecord {
  std::string name;
  Kind kind;
  Dtype dtype;
  Shape shape;                // shape of the global tensor
  std::vector<Piece> pieces;  // disjoint pieces that together make up the tensor

  int64_t bytes() const { return shape.numel() * size_of(dtype); }
};

struct ShardRecord {
  std::string file;  // name of a file in the folder of the checkpoint
  int64_t bytes;
  std::string digest;
};

/// A file with consecutive tensors of a manifest. A page ends before the first tensor of the next page.
struct ManifestPage {
  ShardRecord file;
  std::string name;  // name of the first tensor
  Kind kind;         // kind of the first tensor
};

/// Position in the run. Other modules define the JSON texts. A checkpoint preserves their values, but not their
/// formatting.
struct RunState {
  int64_t step = 0;
  int64_t tokens = 0;  // number of tokens trained on since the start of training
  uint64_t seed = 0;
  std::string recipe;                  // resolved recipe, as YAML
  std::string data_position = "null";  // JSON: position in the training data
  std::string random_state = "null";   // JSON: skipped steps and the chosen schedule; random numbers need no state
  std::string layout = "null";         // JSON: parallel layout of the run that saved; only for display
};

struct Manifest {
  RunState run;
  int64_t sequence = 1;  // number of this save in the run. The save with the highest number is the newest, even if the
                         // run returned to an earlier step.
  int64_t generation = 0;  // RunGeneration of the job that saved; 0: unknown
  std::vector<ShardRecord> shards;
  // Sorted by name, then by kind. manifest_from_json() leaves the list empty if there are pages. Checkpoint::manifest()
  // fills the list.
  std::vector<TensorRecord> tensors;
  std::vector<ManifestPage> pages{};  // sorted like the tensors
};

/// Newest version that this program reads. Version 1 has no pages; manifests without pages are written in version 1.
inline constexpr int64_t manifest_version = 2;
/// Maximum size of a manifest.json or of a page, in bytes, that readers accept.
inline constexpr int64_t max_manifest_bytes = int64_t{1} << 30;

/// Returns the text of manifest.json, which contains a digest of its content.
std::string manifest_to_json(const Manifest& manifest);
/// Parses manifest.json. Throws Error(data) if the text is damaged, has a newer version, or is inconsistent. The
/// message begins with `where`. Examples of inconsistencies are a piece outside its tensor, pieces with more or fewer
/// elements than the tensor, and a shard outside the folder. Does not detect pieces that overlap and leave gaps of the
/// same size. Tensors in pages are checked later, by page_from_json().
Manifest manifest_from_json(std::string_view text, const std::string& where);
/// Checks a manifest before it is written. Throws Error(resource) if a reader would reject the contents of `text`, or
/// if `text` has more than `limit` bytes. The message begins with `where`.
void require_readable(std::string_view text, const std::string& where, int64_t limit = max_manifest_bytes);
/// Throws Error(resource) if the text of a manifest or a page has more than `limit` bytes. The message begins with
/// `where`.
void require_accepted_size(std::string_view text, const std::string& where, int64_t limit = max_manifest_bytes);

/// Contents of the shard that one rank has written. Each rank sends its ShardPart to rank 0 as text.
struct ShardPart {
  int index, count;  // shard `index` of `count`
  ShardRecord shard;
  std::vector<TensorRecord> tensors;  // records that contain only the pieces in this shard
};
std::string part_to_json(const ShardPart& part);
/// Merges the parts of all ranks. Reports progress to `work` repeatedly, because there may be thousands of parts.
/// Throws std::logic_error if the parts are not a complete checkpoint:
/// - a shard is missing or occurs twice;
/// - ranks disagree about the dtype or shape of a tensor;
/// - the pieces of a tensor overlap or leave gaps.
Manifest merge_parts(const RunState& run, std::span<const std::string> parts, const FileWork& work = {});

}  // namespace hexad::io
