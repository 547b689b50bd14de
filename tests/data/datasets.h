// Small datasets in which each token id is its position in the file.
#pragma once

#include <memory>
#include <vector>

#include "framework/data/token_dataset.h"
#include "tests/data/data_folder.h"

namespace hexad::data {

using Ids = std::vector<int32_t>;

/// Returns a dataset of documents with the given lengths. Ids count up from 0, so a token's id is its position in the
/// file. Odd ids are not targets if `mask_odd_ids` is true.
inline std::shared_ptr<const TokenDataset> dataset_of(const std::vector<int>& lengths, bool mask_odd_ids = false) {
  const ScratchFolder folder;  // the dataset keeps its file open after the folder is removed
  TokenDatasetWriter writer(folder / "x.hxd", 65536, {}, mask_odd_ids);
  int32_t next = 0;
  for (int length : lengths) {
    Ids ids;
    std::vector<uint8_t> mask;
    for (int i = 0; i < length; ++i) {
      if (mask_odd_ids) mask.push_back(next % 2 == 0);
      ids.push_back(next++);
    }
    writer.add_document(ids, 3 * length, mask);
  }
  writer.finish();
  return std::make_shared<const TokenDataset>(folder / "x.hxd");
}

/// Returns the document lengths of a corpus of 40 documents. Three of them are empty, and one is longer than most
/// contexts.
inline std::vector<int> many_lengths() {
  std::vector<int> lengths;
  for (int d = 0; d < 40; ++d) lengths.push_back(d % 13 == 5 ? 0 : d == 17 ? 100 : d % 9 + 1);
  return lengths;
}

inline int total(const std::vector<int>& lengths) {
  int sum = 0;
  for (int length : lengths) sum += length;
  return sum;
}

/// Returns, for each token of dataset_of(lengths), the index of its document.
inline std::vector<int> document_of_token(const std::vector<int>& lengths) {
  std::vector<int> documents;
  for (size_t d = 0; d < lengths.size(); ++d) documents.insert(documents.end(), lengths[d], static_cast<int>(d));
  return documents;
}

}  // namespace hexad::data
