#include "framework/data/source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "framework/data/masked_source.h"
#include "framework/data/mixture_source.h"
#include "framework/data/packed_source.h"
#include "framework/data/synthetic_source.h"
#include "tests/data/scratch_folder.h"

namespace hexad::data {
namespace {

using Ids = std::vector<int32_t>;

// Documents of the given lengths; ids count up from 0, so a token's id is its place in the file.
std::shared_ptr<const TokenDataset> dataset_of(const std::vector<int>& lengths, bool mask_odd_ids = false) {
  const ScratchFolder folder;  // the open file outlives its name
  TokenDatasetWriter writer(folder / "x.hxd", 1000, {}, mask_odd_ids);
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

ShuffledSource shuffled(const std::vector<int>& lengths, int64_t context, uint64_t seed = 1,
                        Packing packing = Packing::isolated) {
  return {dataset_of(lengths), context, packing, seed};
}

// The document lengths of a corpus of 40 documents, three of them empty, one longer than any context below.
std::vector<int> many_lengths() {
  std::vector<int> lengths;
  for (int d = 0; d < 40; ++d) lengths.push_back(d % 13 == 5 ? 0 : d == 17 ? 100 : d % 9 + 1);
  return lengths;
}

int total(const std::vector<int>& lengths) {
  int sum = 0;
  for (int length : lengths) sum += length;
  return sum;
}

// The stream that the sequences are cut from.
Ids stream(const Source& source, int64_t tokens) {
  const Batch batch = source.batch(0, (tokens + source.context() - 1) / source.context());
  return {batch.ids.begin(), batch.ids.begin() + tokens};
}

TEST(ShuffledSource, AnEpochIsEveryTokenOnce) {
  const auto lengths = many_lengths();
  const auto source = shuffled(lengths, 7);
  const int n = total(lengths);
  const Ids ids = stream(source, 3 * n);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::set<int32_t> seen(ids.begin() + epoch * n, ids.begin() + (epoch + 1) * n);
    EXPECT_EQ(seen.size(), static_cast<size_t>(n));
    EXPECT_EQ(*seen.rbegin(), n - 1);
  }
}

TEST(ShuffledSource, DocumentsStayWholeAndEpochsDifferInOrder) {
  const auto lengths = many_lengths();
  const int n = total(lengths);
  const Ids ids = stream(shuffled(lengths, 7), 2 * n);
  std::vector<Ids> orders(2);  // first ids of the documents in their order
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

TEST(ShuffledSource, ASequenceDependsOnSeedAndIndexOnly) {
  const auto a = shuffled(many_lengths(), 16, 5), b = shuffled(many_lengths(), 16, 5),
             c = shuffled(many_lengths(), 16, 6);
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

TEST(ShuffledSource, MayBeReadFromSeveralThreads) {
  const auto source = shuffled(many_lengths(), 16);
  const Batch expected = shuffled(many_lengths(), 16).batch(0, 60);  // several epochs, so that the cached orders change
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] { EXPECT_EQ(source.batch(0, 60).ids, expected.ids); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ShuffledSource, EveryTokenButDocumentStartsIsATargetOnceAnEpoch) {
  const auto lengths = many_lengths();
  const int n = total(lengths);
  const auto source = shuffled(lengths, n);  // a sequence an epoch, to count by
  const Batch batch = source.batch(0, 1);
  const int documents = 40 - 3;
  // The target after the last input is the next epoch's first token, which starts a document.
  EXPECT_EQ(batch.target_count(), n - documents);
  for (int t = 0; t < n; ++t) {
    if (batch.targets[t] != ignored) {
      EXPECT_EQ(batch.targets[t], batch.ids[t] + 1);
    }
  }
}

TEST(ShuffledSource, DocumentsInASequenceDoNotSeeEachOther) {
  const auto lengths = many_lengths();
  const auto source = shuffled(lengths, 16);
  std::vector<int> document_of;
  for (size_t d = 0; d < lengths.size(); ++d) document_of.insert(document_of.end(), lengths[d], static_cast<int>(d));
  const Batch batch = source.batch(0, 30);
  for (int64_t s = 0; s < 30; ++s) {
    for (int t = 0; t < 16; ++t) {
      const auto i = static_cast<size_t>(s * 16 + t);
      EXPECT_EQ(batch.positions[i], t - batch.first[i]);
      EXPECT_LE(batch.first[i], t);
      EXPECT_GT(batch.last[i], t);
      for (int u = batch.first[i]; u < batch.last[i]; ++u) {
        EXPECT_EQ(document_of[batch.ids[s * 16 + u]], document_of[batch.ids[i]]) << "sequence " << s << " token " << t;
      }
    }
  }
}

TEST(ShuffledSource, ADocumentLongerThanTheContextGoesOn) {
  const auto source = shuffled({10}, 4);
  const Batch batch = source.batch(0, 5);  // two epochs of ten tokens
  EXPECT_EQ(batch.ids, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(batch.last, (Ids{4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(source.epoch(2), 0);
  EXPECT_EQ(source.epoch(3), 1);
}

TEST(ShuffledSource, ADatasetShorterThanTheContextRepeats) {
  const Batch batch = shuffled({2}, 5).batch(0, 1);
  EXPECT_EQ(batch.ids, (Ids{0, 1, 0, 1, 0}));
  EXPECT_EQ(batch.targets, (Ids{1, -1, 1, -1, 1}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 0, 1, 0}));
  EXPECT_EQ(shuffled({1}, 3).batch(0, 1).target_count(), 0);
}

TEST(ShuffledSource, JoinedTextIsOneRun) {
  const auto source = shuffled({3, 3}, 5, 1, Packing::joined);
  const Batch batch = source.batch(0, 2);
  EXPECT_EQ(batch.target_count(), 10);
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.last, Ids(10, 5));
}

TEST(ShuffledSource, TheLossMaskRemovesTargets) {
  const ShuffledSource source(dataset_of({10}, /*mask_odd_ids=*/true), 5, Packing::isolated, 1);
  EXPECT_EQ(source.batch(0, 2).targets, (Ids{-1, 2, -1, 4, -1, 6, -1, 8, -1, -1}));
}

TEST(ShuffledSource, WithoutTokensIsADataError) {
  for (const std::vector<int>& lengths : {std::vector<int>{}, std::vector<int>{0, 0}}) {
    expect_contains(message_of(ExitCode::data, [&] { shuffled(lengths, 4); }), "has no token");
  }
}

TEST(SequentialSource, PredictsEveryTokenOnceInFileOrder) {
  const auto lengths = many_lengths();
  for (int64_t context : {1, 7, 16, 500}) {
    const SequentialSource source(dataset_of(lengths), context, Packing::isolated);
    const Batch batch = source.batch(0, source.size());
    std::map<int32_t, int> seen;
    for (int32_t target : batch.targets) {
      if (target != ignored) ++seen[target];
    }
    EXPECT_EQ(static_cast<int>(seen.size()), total(lengths) - 37) << "context " << context;
    for (const auto& [id, count] : seen) EXPECT_EQ(count, 1) << "id " << id;
  }
}

TEST(SequentialSource, PadsTheLastSequenceWithADocumentOfItsOwn) {
  const SequentialSource source(dataset_of({3, 0, 3}), 4, Packing::isolated);
  ASSERT_EQ(source.size(), 2);
  const Batch batch = source.batch(0, 2);
  EXPECT_EQ(batch.ids, (Ids{0, 1, 2, 3, 4, 5, 999, 999}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, -1, 4, 5, -1, -1, -1}));
  EXPECT_EQ(batch.first, (Ids{0, 0, 0, 3, 0, 0, 2, 2}));
  EXPECT_EQ(batch.last, (Ids{3, 3, 3, 4, 2, 2, 4, 4}));
  const SequentialSource joined(dataset_of({3, 0, 3}), 4, Packing::joined);
  EXPECT_EQ(joined.batch(0, 2).targets, (Ids{1, 2, 3, 4, 5, -1, -1, -1}));
  EXPECT_EQ(joined.batch(0, 2).last, (Ids{4, 4, 4, 4, 2, 2, 4, 4}));
}

TEST(SequentialSource, WithoutAnythingToPredictIsADataError) {
  expect_contains(message_of(ExitCode::data, [] { SequentialSource(dataset_of({1}), 4, Packing::isolated); }),
                  "has 1 tokens, expected at least 2 to predict one");
}

TEST(SequentialSource, SequencesOutsideAreABug) {
  const SequentialSource source(dataset_of({3, 0, 3}), 4, Packing::isolated);
  EXPECT_THROW(source.batch(1, 2), std::logic_error);
  EXPECT_THROW(source.batch(-1, 1), std::logic_error);
}

TEST(Batch, TargetBytesCountWhatIsPredicted) {
  const Batch batch = SequentialSource(dataset_of({3, 3}), 4, Packing::isolated).batch(0, 2);
  std::vector<int32_t> bytes(1000, 0);
  for (int id = 0; id < 6; ++id) bytes[id] = 10 + id;
  EXPECT_EQ(batch.target_bytes(bytes), 11 + 12 + 14 + 15);
}

TEST(Mixture, ProportionsFollowTheWeightsAtEveryLength) {
  std::vector<MixtureSource::Part> parts;
  const std::vector<double> weights{0.5, 0.3, 0.15, 0.05};
  for (size_t p = 0; p < weights.size(); ++p) {
    parts.push_back({std::make_shared<ShuffledSource>(dataset_of({10}), 4, Packing::isolated, p), weights[p] * 7});
  }
  const MixtureSource mixture(std::move(parts));
  std::vector<int64_t> counts(weights.size(), 0);
  for (int64_t i = 0; i < 200000; ++i) {
    const auto at = mixture.place(i);
    ASSERT_EQ(at.index, counts[at.part]) << "sequence " << i;  // every part is walked without gaps
    ++counts[at.part];
    for (size_t p = 0; p < weights.size(); ++p) {
      // 1e-5 a sequence: weights are rounded to 1/65536.
      ASSERT_NEAR(static_cast<double>(counts[p]), weights[p] * static_cast<double>(i + 1),
                  1 + 1e-5 * static_cast<double>(i));
    }
  }
}

TEST(Mixture, ServesThePartsSequences) {
  const auto a = std::make_shared<ShuffledSource>(dataset_of({10, 20}), 4, Packing::isolated, 1);
  const auto b = std::make_shared<ShuffledSource>(dataset_of({33}), 4, Packing::isolated, 2);
  const MixtureSource mixture({{a, 2}, {b, 1}});
  for (int64_t i : {0, 1, 2, 3, 70000}) {
    const auto at = mixture.place(i);
    EXPECT_EQ(mixture.batch(i, 1).ids, (at.part == 0 ? a : b)->batch(at.index, 1).ids);
    EXPECT_EQ(mixture.epoch(i), (at.part == 0 ? a : b)->epoch(at.index));
  }
}

TEST(Mixture, BadWeightsAreUsageErrors) {
  const auto a = std::make_shared<ShuffledSource>(dataset_of({10}), 4, Packing::isolated, 1);
  expect_contains(message_of(ExitCode::usage, [&] { MixtureSource({{a, 1}, {a, 0}}); }), "weight 1 is 0");
  expect_contains(message_of(ExitCode::usage, [&] { MixtureSource({{a, NAN}}); }), "weight 0 is nan");
  expect_contains(message_of(ExitCode::usage,
                             [&] {
                               MixtureSource({{a, 1}, {a, 1e-9}});
                             }),
                  "no sequence would be drawn");
}

TEST(Concatenated, IsOnePartAfterTheOther) {
  const auto a = std::make_shared<SequentialSource>(dataset_of({9}), 4, Packing::isolated);
  const auto b = std::make_shared<SequentialSource>(dataset_of({5}), 4, Packing::isolated);
  const ConcatenatedSource both({a, b});
  EXPECT_EQ(both.size(), 3);
  EXPECT_EQ(both.batch(0, 3).ids, (Ids{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3}));
}

TEST(Synthetic, TokensAreUniformAndTargetsTheNextInput) {
  const SyntheticSource source(10, 100, 3);
  const Batch batch = source.batch(0, 100);
  std::vector<int> counts(10, 0);
  for (int32_t id : batch.ids) ++counts.at(static_cast<size_t>(id));
  for (int count : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(900.0));
  for (size_t t = 0; t + 1 < batch.ids.size(); ++t) EXPECT_EQ(batch.targets[t], batch.ids[t + 1]);
  EXPECT_EQ(source.batch(42, 1).ids, Ids(batch.ids.begin() + 4200, batch.ids.begin() + 4300));
}

MaskedSource masked(double probability, uint64_t seed = 1) {
  return {std::make_shared<SyntheticSource>(1000, 64, 9),
          {.probability = probability, .mask_id = 999, .text_ids = 900, .seed = seed}};
}

TEST(MaskedLm, FollowsTheShares80To10To10) {
  const SyntheticSource plain(1000, 64, 9);
  const Batch before = plain.batch(0, 1000), after = masked(0.15).batch(0, 1000);
  double text = 0, chosen = 0, to_mask = 0, to_random = 0, kept = 0;
  for (size_t t = 0; t < before.ids.size(); ++t) {
    text += before.ids[t] < 900;
    if (after.targets[t] == ignored) {
      EXPECT_EQ(after.ids[t], before.ids[t]);
      continue;
    }
    EXPECT_EQ(after.targets[t], before.ids[t]);
    EXPECT_LT(after.targets[t], 900) << "special ids are never chosen";
    ++chosen;
    if (after.ids[t] == 999) {
      ++to_mask;
    } else {
      EXPECT_LT(after.ids[t], 900) << "special ids are never put in";
      ++(after.ids[t] == before.ids[t] ? kept : to_random);
    }
  }
  const auto five_sigma = [](double n, double p) { return 5 * std::sqrt(n * p * (1 - p)); };
  EXPECT_NEAR(chosen, 0.15 * text, five_sigma(text, 0.15));
  EXPECT_NEAR(to_mask, 0.8 * chosen, five_sigma(chosen, 0.8));
  EXPECT_NEAR(to_random, 0.1 * chosen, five_sigma(chosen, 0.1));
  EXPECT_NEAR(kept, 0.1 * chosen, five_sigma(chosen, 0.1));
}

TEST(MaskedLm, IsDrawnPerGlobalTokenIndex) {
  const auto source = masked(0.3);
  const Batch batch = source.batch(0, 8), one = source.batch(5, 1);
  EXPECT_EQ(one.ids, Ids(batch.ids.begin() + 320, batch.ids.begin() + 384));
  EXPECT_EQ(one.targets, Ids(batch.targets.begin() + 320, batch.targets.begin() + 384));
  EXPECT_NE(masked(0.3, 2).batch(5, 1).targets, one.targets);
}

TEST(MaskedLm, PaddingIsNeverATarget) {
  const auto heldout = std::make_shared<SequentialSource>(dataset_of({3, 3}), 16, Packing::isolated);
  const MaskedSource source(heldout, {.probability = 1, .mask_id = 999, .text_ids = 998, .seed = 1});
  EXPECT_EQ(source.batch(0, 1).target_count(), 6);
}

}  // namespace
}  // namespace hexad::data
