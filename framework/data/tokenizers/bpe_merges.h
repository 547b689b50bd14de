// Merging of adjacent symbols by rank, the core of all byte-pair encodings.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/data/tokenizers/pair_table.h"

namespace hexad::data {

/// Merges adjacent symbols of `symbols` until no adjacent pair is in `merges`. The pair with the lowest rank is merged
/// first; among equal ranks, the leftmost pair. Takes O(n log n) steps.
void merge_symbols(const PairTable& merges, std::vector<int32_t>& symbols);

}  // namespace hexad::data
