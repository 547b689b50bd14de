// Lengths and offsets of packed documents, which the card computes for cuDNN.
#include <gtest/gtest.h>

#include "framework/kernels/cuda/attention/attention_calls.h"

namespace hexad::kernels::cuda {

using namespace base;
namespace {

struct Found {
  std::vector<int32_t> lengths;
  std::vector<int64_t> offsets;
};

/// Finds at most `most` documents of sequences with the given document lengths. Returns the lengths of these documents,
/// and their offsets in two tensors of three and ten elements per token.
Found find(const std::vector<std::vector<int32_t>>& sequences, int64_t most) {
  device::DeviceContext context({.kind = device::DeviceKind::cuda});
  std::vector<int32_t> begins, ends;
  for (const auto& documents : sequences)
    for (int32_t begin = 0; const int32_t length : documents) {
      begins.insert(begins.end(), length, begin);
      ends.insert(ends.end(), length, begin += length);
    }
  const auto tokens = std::ssize(begins), count = std::ssize(sequences);
  const Tensor first = Tensor::from<int32_t>(begins, {tokens}, context),
               last = Tensor::from<int32_t>(ends, {tokens}, context);
  const Tensor lengths = Tensor::empty({most}, Dtype::i32, context),
               offsets = Tensor::empty({2, most + 1}, Dtype::i64, context);
  find_documents(context.compute(), lengths, offsets, {first, last}, tokens / count, std::vector<int64_t>{3, 10});
  return {lengths.to_vector<int32_t>(), offsets.to_vector<int64_t>()};
}

TEST(CudaDocuments, HaveLengthsAndOffsetsInTheOrderOfTokens) {
  const Found found = find({{3, 1}, {4}, {1, 1, 2}}, 6);
  EXPECT_EQ(found.lengths, (std::vector<int32_t>{3, 1, 4, 1, 1, 2}));
  EXPECT_EQ(found.offsets, (std::vector<int64_t>{0, 9, 12, 24, 27, 30, 36, 0, 30, 40, 80, 90, 100, 120}));
}

TEST(CudaDocuments, MissingDocumentsAreEmptyAndLast) {
  const Found found = find({{3, 1}, {4}}, 5);
  EXPECT_EQ(found.lengths, (std::vector<int32_t>{3, 1, 4, 0, 0}));
  EXPECT_EQ(found.offsets, (std::vector<int64_t>{0, 9, 12, 24, 24, 24, 0, 30, 40, 80, 80, 80}));
}

TEST(CudaDocuments, AreOmittedBeyondTheGivenCount) {
  const Found found = find({{1, 1, 1, 1}, {2, 2}}, 2);
  EXPECT_EQ(found.lengths, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(found.offsets, (std::vector<int64_t>{0, 3, 24, 0, 10, 80}));
}

// 1024 threads share 5006 tokens, so a thread handles up to five tokens.
TEST(CudaDocuments, MayHaveMoreTokensThanABlockHasThreads) {
  std::vector<int32_t> lengths{1000, 1, 2, 500};
  for (int i = 0; i < 1000; ++i) lengths.push_back(1);
  const Found found = find({lengths, {2503}}, 1005);
  lengths.push_back(2503);
  EXPECT_EQ(found.lengths, lengths);
  int64_t token = 0;
  for (size_t d = 0; d <= lengths.size(); ++d) {
    EXPECT_EQ(found.offsets[d], 3 * token) << d;
    EXPECT_EQ(found.offsets[lengths.size() + 1 + d], 10 * token) << d;
    if (d < lengths.size()) token += lengths[d];
  }
}

}  // namespace
}  // namespace hexad::kernels::cuda
