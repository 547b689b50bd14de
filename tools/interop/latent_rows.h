// Order of the rows of projections in foreign tensors, as lists: entry i is the foreign row that becomes row i in
// Hexad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hexad::interop {

/// Returns the order of rows of heads. The first `rotary` rows of each head rotate as pairs (2i, 2i + 1) in the foreign
/// tensor, and as halves (i, i + rotary / 2) in Hexad. The reordering does not change the products of queries and keys.
std::vector<int64_t> halves_of_pairs(int64_t heads, int64_t head, int64_t rotary);

/// Rows of the projections of latent attention. Each foreign head of queries ends with its rotary part, stored as
/// pairs. Each of Hexad's heads begins with its rotary part, stored as halves.
struct LatentRows {
  int64_t heads, kv_rank, nope, rope, value;

  std::vector<int64_t> queries() const;
  /// Returns the order of the rows of kv_a_proj_with_mqa: the latent, then the rotary part of the keys.
  std::vector<int64_t> down() const;
  /// Returns the order of the rows of kv_b_proj. Each foreign head has its keys before its values. In Hexad, the keys
  /// of all heads come before the values of all heads.
  std::vector<int64_t> up() const;
};

/// Returns the order of rows of a foreign tensor that consists of `groups` groups. In each group, the parts follow one
/// another: sizes[0] rows of part 0, then sizes[1] rows of part 1, and so on. Hexad has part 0 of all groups, then part
/// 1 of all groups.
std::vector<int64_t> parts_of_groups(int64_t groups, std::span<const int64_t> sizes);

/// Copies rows of `row_bytes` bytes in another order: row i of `to` is row order[i] of `from`.
void gather_rows(std::byte* to, const std::byte* from, std::span<const int64_t> order, int64_t row_bytes);
/// Inverse of gather_rows(): row order[i] of `to` is row i of `from`.
void scatter_rows(std::byte* to, const std::byte* from, std::span<const int64_t> order, int64_t row_bytes);

}  // namespace hexad::interop
