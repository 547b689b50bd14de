// Indexed datasets of Megatron-LM: an index NAME.idx, and the ids of all tokens in NAME.bin.
//
// Current index (magic MMIDIDX): version u64 = 1, dtype u8, sequences u64, boundaries u64 | sizes of the sequences in
// tokens, i32 | their positions in NAME.bin in bytes, i64 | document boundaries as numbers of sequences, i64.
// Older index (magic TNTIDX): version u64 = 1, dtype u64, element size u64, sequences u64, sizes u64, boundaries u64 |
// dimension offsets, sequences + 1 | positions in tokens, sequences + 1 | sizes | document boundaries; all i64.
// All numbers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

/// Integer type of the stored token ids.
struct IdFormat {
  int bytes = 2;
  bool is_signed = false;

  bool operator==(const IdFormat&) const = default;
  /// Returns a name like "u16".
  std::string name() const;
};

struct MegatronIndex {
  std::string data_path;  // path of NAME.bin
  IdFormat ids;
  int64_t sequences = 0;
  std::vector<int64_t> offsets = {};  // documents + 1 token offsets in ascending order; the first is 0
  Digest digest;  // digest of the index, the size of NAME.bin and its first and last MiB; identifies the dataset
};

/// True if `path` ends in .idx, the suffix of an index.
bool is_megatron_index(std::string_view path);

/// Reads an index and checks it against the size of NAME.bin. Throws Error(data) that names the file and the problem,
/// for example:
/// - The magic, version or dtype is unknown.
/// - A size does not match the counts.
/// - Sequences are not consecutive in NAME.bin.
/// - The documents do not consist of all sequences in order.
MegatronIndex read_megatron_index(const std::string& path);

}  // namespace hexad::data
