// Micro-batches without values, compared with micro-batches made from sequences.
#include "tools/train/model/equal_micro_batches.h"

#include <gtest/gtest.h>

#include "tests/training/training.h"
#include "tools/plan/run_on_meta.h"
#include "tools/train/model/model_instance.h"

namespace hexad::tests {

using namespace train;
namespace {

constexpr int64_t sequences = 3, context = 16;

// Makes the micro-batches that begin with sequences 0 and 3 on a meta device. The first micro-batch is made from
// sequences. The second micro-batch is made like the first, without values, if `like_first` is true. Otherwise, the
// second micro-batch is also made from sequences.
struct Made {
  Made(device::DeviceKind stands_for, ContextRank rank, int64_t blocks, std::optional<int64_t> chunk, bool like_first)
      : run(std::make_shared<device::MetaRun>(stands_for)) {
    run->record_issues();
    where.emplace(device::ContextOptions{.kind = device::DeviceKind::meta, .meta = run});
    const plan::TwoDocuments source(context);
    const auto make = [&](int64_t first) {
      return make_micro_batch(source.batch(first, sequences), first, sequences, *where, rank, blocks, chunk);
    };
    batches.push_back(make(0));
    batches.push_back(like_first ? EqualMicroBatches(batches[0]).make(sequences, *where) : make(sequences));
  }
  const std::shared_ptr<device::MetaRun> run;
  std::optional<device::DeviceContext> where;
  std::vector<MicroBatch> batches;
};

void expect_like(const Tensor& a, const Tensor& b, const char* name) {
  ASSERT_EQ(a.defined(), b.defined()) << name;
  if (!a.defined()) return;
  EXPECT_EQ(a.shape(), b.shape()) << name;
  EXPECT_EQ(a.dtype(), b.dtype()) << name;
}

void expect_like(const MicroBatch& a, const MicroBatch& b) {
  EXPECT_EQ(a.first_token, b.first_token);
  EXPECT_EQ(a.rows(), b.rows());
  EXPECT_EQ(a.row_tokens, b.row_tokens);
  EXPECT_EQ(a.valid_tokens, b.valid_tokens);
  EXPECT_EQ(a.predicted, b.predicted);
  EXPECT_EQ(a.documents, b.documents);
  EXPECT_EQ(a.chunks, b.chunks);
  expect_like(a.ids, b.ids, "ids");
  expect_like(a.positions, b.positions, "positions");
  expect_like(a.first, b.first, "first");
  expect_like(a.last, b.last, "last");
  expect_like(a.chunk_first, b.chunk_first, "chunk_first");
  expect_like(a.chunk_last, b.chunk_last, "chunk_last");
  expect_like(a.targets, b.targets, "targets");
  expect_like(a.valid, b.valid, "valid");
  ASSERT_EQ(a.further.size(), b.further.size());
  for (size_t k = 0; k < a.further.size(); ++k) {
    expect_like(a.further[k].ids, b.further[k].ids, "further ids");
    expect_like(a.further[k].targets, b.further[k].targets, "further targets");
  }
}

TEST(EqualMicroBatches, HaveTheSizesMemoryAndCopiesOfThoseMadeFromSequences) {
  for (const device::DeviceKind kind : {device::DeviceKind::cpu, device::DeviceKind::cuda})
    for (const ContextRank rank : {ContextRank{}, ContextRank{.ranks = 2, .rank = 1}})
      for (const int64_t blocks : {0, 2})
        for (const std::optional<int64_t> chunk : {std::optional<int64_t>(), std::optional<int64_t>(4)}) {
          SCOPED_TRACE(base::cat(rank.ranks, " ranks, ", blocks, " blocks, ", chunk ? "chunks" : "no chunks"));
          const Made expected(kind, rank, blocks, chunk, false), actual(kind, rank, blocks, chunk, true);
          expect_like(expected.batches[1], actual.batches[1]);
          EXPECT_TRUE(expected.run->issues()->issues() == actual.run->issues()->issues());
          EXPECT_GT(actual.run->issues()->issues().size(), 0U);
          const device::MemoryStats a = expected.where->allocator()->stats(), b = actual.where->allocator()->stats();
          EXPECT_EQ(a.used, b.used);
          EXPECT_EQ(a.peak_held, b.peak_held);
        }
}

TEST(EqualMicroBatches, AreRefusedOnADeviceWithMemory) {
  device::DeviceContext cpu;
  const plan::TwoDocuments source(context);
  const MicroBatch batch = make_micro_batch(source.batch(0, sequences), 0, sequences, cpu);
  EXPECT_THROW(EqualMicroBatches(batch).make(0, cpu), std::logic_error);
}

}  // namespace
}  // namespace hexad::tests
