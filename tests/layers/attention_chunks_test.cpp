#include "layers/base/attention_chunks.h"

#include <gtest/gtest.h>

namespace hexad::tests {

using layers::attention_chunks;
using layers::AttentionChunks;
namespace {

TEST(AttentionChunks, DivideTheDocumentsOfEachSequence) {
  // A sequence with documents of 4 and 1 tokens, and a sequence with one document of 5 tokens.
  const std::vector<int32_t> first{0, 0, 0, 0, 4, 0, 0, 0, 0, 0}, last{4, 4, 4, 4, 5, 5, 5, 5, 5, 5};
  const AttentionChunks chunks = attention_chunks(first, last, 5, 3);
  EXPECT_EQ(chunks.first, (std::vector<int32_t>{0, 0, 0, 3, 4, 0, 0, 0, 3, 3}));
  EXPECT_EQ(chunks.last, (std::vector<int32_t>{3, 3, 3, 4, 5, 3, 3, 3, 5, 5}));
  EXPECT_EQ(chunks.count, 5);
}

TEST(AttentionChunks, ChunksOfTheSequencesLengthAreDocuments) {
  const std::vector<int32_t> first{0, 0, 2, 2}, last{2, 2, 4, 4};
  const AttentionChunks chunks = attention_chunks(first, last, 4, 4);
  EXPECT_EQ(chunks.first, first);
  EXPECT_EQ(chunks.last, last);
  EXPECT_EQ(chunks.count, 2);
}

}  // namespace
}  // namespace hexad::tests
