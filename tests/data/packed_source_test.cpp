#include "framework/data/packed_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "tests/data/datasets.h"
#include "tests/support/target_count.h"

namespace {

std::atomic<size_t> bytes_allocated = 0;

void* counted(size_t bytes) {
  bytes_allocated += bytes;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace hexad::data {
namespace {

template <class Source>
Source source_of(const std::vector<int>& lengths, int64_t context, uint64_t seed = 1,
                 Packing packing = Packing::isolated) {
  return {dataset_of(lengths), context, packing, seed};
}

// Tests of properties that ShuffledSequences and ShuffledDocuments have in common.
template <class T>
class Shuffled : public testing::Test {};
using Sources = testing::Types<ShuffledSequences, ShuffledDocuments>;
TYPED_TEST_SUITE(Shuffled, Sources);

// Returns, for each token, the number of times that it is an input in sequences [begin, end).
std::vector<int> visits(const Source& source, int tokens, int64_t begin, int64_t end) {
  std::vector<int> seen(tokens, 0);
  for (int32_t id : source.batch(begin, end - begin).ids) ++seen.at(id);
  return seen;
}

TYPED_TEST(Shuffled, EpochOfWholeSequencesHasEveryTokenOnce) {
  auto lengths = many_lengths();
  lengths.push_back(16 - total(lengths) % 16);
  const int n = total(lengths);
  const auto source = source_of<TypeParam>(lengths, 16);
  for (int epoch = 0; epoch < 5; ++epoch)
    EXPECT_EQ(visits(source, n, epoch * n / 16, (epoch + 1) * n / 16), std::vector<int>(n, 1)) << "epoch " << epoch;
}

// A sequence that spans several epochs is neither lost nor repeated.
TYPED_TEST(Shuffled, SequencesAcrossEpochsHaveEveryTokenOncePerEpoch) {
  const int n = total(many_lengths());
  for (int64_t context : {1, 7, 16, 48, 1000}) {
    const auto epochs = static_cast<int>(context / std::gcd(context, n));
    const auto source = source_of<TypeParam>(many_lengths(), context);
    EXPECT_EQ(visits(source, n, 0, epochs * n / context), std::vector<int>(n, epochs)) << "context " << context;
  }
}

TYPED_TEST(Shuffled, SequenceDependsOnSeedAndIndexOnly) {
  const auto make = [](uint64_t seed) { return source_of<TypeParam>(many_lengths(), 16, seed); };
  const auto a = make(5), b = make(5), c = make(6);
  const Batch all = a.batch(0, 60);
  for (int64_t i : {59, 3, 41, 0, 17}) {
    const Batch one = b.batch(i, 1);
    const auto part = [&](const Ids& column) { return Ids(column.begin() + i * 16, column.begin() + (i + 1) * 16); };
    EXPECT_EQ(one.ids, part(all.ids));
    EXPECT_EQ(one.targets, part(all.targets));
    EXPECT_EQ(one.first, part(all.first));
    EXPECT_EQ(one.last, part(all.last));
    EXPECT_EQ(one.positions, part(all.positions));
  }
  EXPECT_NE(c.batch(0, 60).ids, all.ids);
}

TYPED_TEST(Shuffled, MayBeReadFromSeveralThreads) {
  const auto source = source_of<TypeParam>(many_lengths(), 16);
  const Batch expected = source_of<TypeParam>(many_lengths(), 16).batch(0, 60);  // spans several epochs
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] { EXPECT_EQ(source.batch(0, 60).ids, expected.ids); });
  }
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(Shuffled, EveryTokenButDocumentStartsIsATargetOnceAnEpoch) {
  const auto lengths = many_lengths();
  const int n = total(lengths);
  const Batch batch = source_of<TypeParam>(lengths, n).batch(0, 1);  // one sequence is one epoch
  const int documents = 40 - 3;
  // The target after the last input is the next epoch's first token, which starts a document.
  EXPECT_EQ(tests::target_count(batch), n - documents);
  for (int t = 0; t < n; ++t) {
    if (batch.targets[t] != ignored) {
      EXPECT_EQ(batch.targets[t], batch.ids[t] + 1);
    }
  }
}

TYPED_TEST(Shuffled, DocumentsInASequenceDoNotAttendToEachOther) {
  const auto source = source_of<TypeParam>(many_lengths(), 16);
  const std::vector<int> document_of = document_of_token(many_lengths());
  const Batch batch = source.batch(0, 30);
  for (int64_t s = 0; s < 30; ++s) {
    for (int t = 0; t < 16; ++t) {
      const size_t i = s * 16 + t;
      EXPECT_EQ(batch.positions[i], t - batch.first[i]);
      EXPECT_LE(batch.first[i], t);
      EXPECT_GT(batch.last[i], t);
      for (int u = batch.first[i]; u < batch.last[i]; ++u) {
        EXPECT_EQ(document_of[batch.ids[s * 16 + u]], document_of[batch.ids[i]]) << "sequence " << s << " token " << t;
      }
    }
  }
}

TYPED_TEST(Shuffled, DatasetShorterThanTheContextRepeats) {
  const Batch batch = source_of<TypeParam>({2}, 5).batch(0, 2);
  EXPECT_EQ(batch.ids, (Ids{0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(batch.targets, (Ids{1, -1, 1, -1, 1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 1, 0, 0, 0, 1, 0, 1}));
  EXPECT_EQ(tests::target_count(source_of<TypeParam>({1}, 3).batch(0, 1)), 0);
}

TYPED_TEST(Shuffled, JoinedTextIsOneDocument) {
  const auto source = source_of<TypeParam>({3, 3}, 5, 1, Packing::joined);
  const Batch batch = source.batch(0, 2);
  EXPECT_EQ(tests::target_count(batch), 10);
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.last, Ids(10, 5));
}

TYPED_TEST(Shuffled, LossMaskRemovesTargets) {
  const TypeParam source(dataset_of({10}, /*mask_odd_ids=*/true), 5, Packing::isolated, 1);
  const Batch batch = source.batch(0, 2);
  for (size_t t = 0; t < 10; ++t)
    EXPECT_EQ(batch.targets[t], batch.ids[t] % 2 == 1 && batch.ids[t] < 9 ? batch.ids[t] + 1 : ignored);
}

TYPED_TEST(Shuffled, EmptyDatasetIsADataError) {
  for (const std::vector<int>& lengths : {std::vector<int>{}, std::vector<int>{0, 0}}) {
    expect_contains(message_of(ExitCode::data, [&] { source_of<TypeParam>(lengths, 4); }), "has no token");
  }
}

// Returns the share of adjacent pairs whose two sequences begin in the same document. The pairs are among the first
// `sequences` sequences of `source`.
double share_of_neighbours_in_one_document(const Source& source, const std::vector<int>& lengths, int64_t sequences) {
  const std::vector<int> document_of = document_of_token(lengths);
  const auto document = [&](int64_t s) { return document_of[source.batch(s, 1).ids[0]]; };
  double same = 0;
  for (int64_t s = 0; s + 1 < sequences; ++s) same += document(s) == document(s + 1);
  return same / static_cast<double>(sequences - 1);
}

// In a random order of the sequences of ten equally long documents, a tenth of the adjacent pairs begin in the same
// document. In the order of ShuffledDocuments, a document's sequences follow each other.
TEST(ShuffledSequences, NeighboursShareALongDocumentOnlyByChance) {
  const std::vector<int> lengths(10, 1600);
  const int64_t sequences = 2000;
  const double chance = 0.1, sigma = std::sqrt(chance * (1 - chance) / static_cast<double>(sequences));
  EXPECT_NEAR(share_of_neighbours_in_one_document(source_of<ShuffledSequences>(lengths, 8), lengths, sequences), chance,
              5 * sigma);
  EXPECT_GT(share_of_neighbours_in_one_document(source_of<ShuffledDocuments>(lengths, 8), lengths, sequences), 0.99);
}

// One document of ten tokens is divided into five pieces over two epochs. Three of the pieces begin in the first epoch.
TEST(ShuffledSequences, PieceAcrossEpochsBelongsToTheEpochInWhichItBegins) {
  const auto source = source_of<ShuffledSequences>({10}, 4);
  const auto pieces = [&](int64_t begin, int64_t end) {
    std::set<std::pair<Ids, Ids>> found;
    for (int64_t i = begin; i < end; ++i) {
      const Batch batch = source.batch(i, 1);
      found.insert({batch.ids, batch.targets});
      const bool across = batch.ids[0] == 8;
      EXPECT_EQ(batch.positions, across ? (Ids{0, 1, 0, 1}) : (Ids{0, 1, 2, 3}));
      EXPECT_EQ(batch.last, across ? (Ids{2, 2, 4, 4}) : (Ids{4, 4, 4, 4}));
      EXPECT_EQ(source.epoch(i), i < 3 ? 0 : 1);
    }
    return found;
  };
  using Pieces = std::set<std::pair<Ids, Ids>>;
  EXPECT_EQ(pieces(0, 3), (Pieces{{{0, 1, 2, 3}, {1, 2, 3, 4}},  //
                                  {{4, 5, 6, 7}, {5, 6, 7, 8}},
                                  {{8, 9, 0, 1}, {9, -1, 1, 2}}}));
  EXPECT_EQ(pieces(3, 5), (Pieces{{{2, 3, 4, 5}, {3, 4, 5, 6}}, {{6, 7, 8, 9}, {7, 8, 9, -1}}}));
}

TEST(ShuffledSequences, EpochsDifferInOrderAndSequenceBounds) {
  auto lengths = many_lengths();
  lengths.push_back(16 - total(lengths) % 16);  // epochs of whole sequences, so only shuffling moves their bounds
  const int64_t sequences = total(lengths) / 16;
  const auto source = source_of<ShuffledSequences>(lengths, 16);
  std::vector<Ids> firsts(2);
  for (int64_t i = 0; i < 2 * sequences; ++i) firsts[i / sequences].push_back(source.batch(i, 1).ids[0]);
  EXPECT_FALSE(std::is_sorted(firsts[0].begin(), firsts[0].end()));
  EXPECT_NE(firsts[0], firsts[1]);
  const std::set<int32_t> in_first(firsts[0].begin(), firsts[0].end());
  const auto again = std::count_if(firsts[1].begin(), firsts[1].end(), [&](int32_t id) { return in_first.count(id); });
  EXPECT_LT(again, sequences);
}

TEST(ShuffledSequences, AllocateAsMuchFor40DocumentsAsFor4000) {
  const auto allocated = [](int documents) {
    const auto source = source_of<ShuffledSequences>(std::vector<int>(documents, 8), 16);
    Batch batch(1, 16);
    const size_t before = bytes_allocated;
    for (int64_t i = 0; i < 40; ++i) source.fill(i, batch.row(0));
    return bytes_allocated - before;
  };
  EXPECT_GT(allocated(40), 0u);
  EXPECT_EQ(allocated(40), allocated(4000));
}

TEST(ShuffledDocuments, DocumentsRemainWholeAndEpochsDifferInOrder) {
  const auto lengths = many_lengths();
  const int n = total(lengths);
  const Ids all = source_of<ShuffledDocuments>(lengths, 7).batch(0, 2 * n / 7 + 1).ids;
  const Ids ids(all.begin(), all.begin() + 2 * n);
  std::vector<Ids> orders(2);  // for each epoch: first ids of the documents, in their order
  std::set<int32_t> starts;
  int32_t at = 0;
  for (int length : lengths) {
    if (length > 0) starts.insert(at);
    at += length;
  }
  for (int t = 0; t < 2 * n; ++t) {
    if (starts.count(ids[t])) {
      orders[t / n].push_back(ids[t]);
    } else {
      EXPECT_EQ(ids[t], ids[t - 1] + 1) << "token " << t;
    }
  }
  EXPECT_EQ(orders[0].size(), starts.size());
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
}

TEST(ShuffledDocuments, DocumentLongerThanTheContextContinues) {
  const auto source = source_of<ShuffledDocuments>({10}, 4);
  const Batch batch = source.batch(0, 5);  // two epochs of ten tokens
  EXPECT_EQ(batch.ids, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batch.last, (Ids{4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(source.epoch(2), 0);
  EXPECT_EQ(source.epoch(3), 1);
}

// Resumed runs rely on these values, which are the first tokens of the first sequences and of distant sequences.
TEST(DataOrder, NeverChanges) {
  const auto firsts = [](const Source& source) {
    Ids out;
    for (int64_t i : {0, 1, 2, 3, 4, 5, 100, 1000, 100000}) out.push_back(source.batch(i, 1).ids[0]);
    return out;
  };
  EXPECT_EQ(firsts(source_of<ShuffledSequences>(many_lengths(), 7, 3)), (Ids{13, 83, 34, 97, 240, 247, 81, 56, 249}));
  EXPECT_EQ(firsts(source_of<ShuffledSequences>(std::vector<int>(30, 500), 64, 1)),
            (Ids{6644, 7028, 6516, 412, 4724, 5620, 3380, 12780, 8660}));
  EXPECT_EQ(firsts(source_of<ShuffledDocuments>(many_lengths(), 7, 3)), (Ids{45, 190, 224, 256, 49, 31, 170, 81, 94}));
}

}  // namespace
}  // namespace hexad::data
