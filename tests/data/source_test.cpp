#include "framework/data/source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "framework/data/masked_source.h"
#include "framework/data/mixture_source.h"
#include "framework/data/packed_source.h"
#include "framework/data/synthetic_source.h"
#include "tests/data/datasets.h"
#include "tests/support/target_count.h"

namespace hexad::data {
namespace {

TEST(SequentialSource, PredictsEveryTokenButDocumentStartsOnce) {
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

TEST(SequentialSource, PadsTheLastSequenceWithASeparateDocument) {
  const SequentialSource source(dataset_of({3, 0, 3}), 4, Packing::isolated);
  ASSERT_EQ(source.size(), 2);
  const Batch batch = source.batch(0, 2);
  EXPECT_EQ(batch.ids, (Ids{0, 1, 2, 3, 4, 5, 65535, 65535}));
  EXPECT_EQ(batch.targets, (Ids{1, 2, -1, 4, 5, -1, -1, -1}));
  EXPECT_EQ(batch.first, (Ids{0, 0, 0, 3, 0, 0, 2, 2}));
  EXPECT_EQ(batch.last, (Ids{3, 3, 3, 4, 2, 2, 4, 4}));
  const SequentialSource joined(dataset_of({3, 0, 3}), 4, Packing::joined);
  EXPECT_EQ(joined.batch(0, 2).targets, (Ids{1, 2, 3, 4, 5, -1, -1, -1}));
  EXPECT_EQ(joined.batch(0, 2).last, (Ids{4, 4, 4, 4, 2, 2, 4, 4}));
}

TEST(SequentialSource, DatasetWithoutTargetsIsADataError) {
  expect_contains(message_of(ExitCode::data, [] { SequentialSource(dataset_of({1}), 4, Packing::isolated); }),
                  "has 1 token, expected at least 2 to predict one");
}

TEST(SequentialSource, OutOfRangeSequencesAreABug) {
  const SequentialSource source(dataset_of({3, 0, 3}), 4, Packing::isolated);
  EXPECT_THROW(source.batch(1, 2), std::logic_error);
  EXPECT_THROW(source.batch(-1, 1), std::logic_error);
}

TEST(Batch, FurtherTokensAreOfTheSameDocument) {
  const Batch batch = SequentialSource(dataset_of({3, 0, 3}), 4, Packing::isolated).batch(0, 2);
  const Batch::Further one = batch.further(1), two = batch.further(2);
  EXPECT_EQ(one.ids, (Ids{1, 2, 2, 3, 5, 5, 65535, 65535}));
  EXPECT_EQ(one.targets, (Ids{2, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(two.ids, (Ids{2, 2, 2, 3, 5, 5, 65535, 65535}));
  EXPECT_EQ(two.targets, (Ids(8, -1)));
  EXPECT_EQ(batch.further(0).ids, batch.ids);
  EXPECT_EQ(batch.further(0).targets, batch.targets);
}

TEST(Batch, CountsDocumentsOnlyIfTheyDivideTheSequences) {
  const Batch batch = SequentialSource(dataset_of({3, 0, 3}), 4, Packing::isolated).batch(0, 2);
  EXPECT_EQ(batch.document_count(), 4);
  const auto changed = [&](std::vector<int32_t> Batch::*bounds, size_t t, int32_t to) {
    Batch other = batch;
    (other.*bounds)[t] = to;
    return other.document_count();
  };
  EXPECT_EQ(changed(&Batch::first, 4, 1), 0);  // the first token of sequence 1 belongs to no document
  EXPECT_EQ(changed(&Batch::last, 1, 2), 0);   // tokens of one document have different bounds
  EXPECT_EQ(changed(&Batch::first, 2, 2), 0);  // one document begins before the previous document ends
  EXPECT_EQ(changed(&Batch::last, 3, 5), 0);   // the document ends after its sequence
  EXPECT_EQ(changed(&Batch::first, 3, 0), 0);  // the document starts at a token of another document
  EXPECT_EQ(SequentialSource(dataset_of({3, 0, 3}), 4, Packing::joined).batch(0, 1).document_count(), 1);
}

TEST(Mixture, ProportionsFollowTheWeightsAtEveryLength) {
  std::vector<MixtureSource::Part> parts;
  const std::vector<double> weights{0.5, 0.3, 0.15, 0.05};
  for (size_t p = 0; p < weights.size(); ++p) {
    parts.push_back({std::make_shared<ShuffledSequences>(dataset_of({10}), 4, Packing::isolated, p), weights[p] * 7});
  }
  const MixtureSource mixture(std::move(parts));
  std::vector<int64_t> counts(weights.size(), 0);
  for (int64_t i = 0; i < 200000; ++i) {
    const auto at = mixture.place(i);
    ASSERT_EQ(at.index, counts[at.part]) << "sequence " << i;  // each part is read in order and without gaps
    ++counts[at.part];
    for (size_t p = 0; p < weights.size(); ++p) {
      // Allows 1e-5 per sequence, because weights are rounded to 1/65536.
      ASSERT_NEAR(static_cast<double>(counts[p]), weights[p] * static_cast<double>(i + 1),
                  1 + 1e-5 * static_cast<double>(i));
    }
  }
}

TEST(Mixture, ServesThePartsSequences) {
  const auto a = std::make_shared<ShuffledSequences>(dataset_of({10, 20}), 4, Packing::isolated, 1);
  const auto b = std::make_shared<ShuffledSequences>(dataset_of({33}), 4, Packing::isolated, 2);
  const MixtureSource mixture({{a, 2}, {b, 1}});
  for (int64_t i : {0, 1, 2, 3, 70000}) {
    const auto at = mixture.place(i);
    EXPECT_EQ(mixture.batch(i, 1).ids, (at.part == 0 ? a : b)->batch(at.index, 1).ids);
    EXPECT_EQ(mixture.epoch(i), (at.part == 0 ? a : b)->epoch(at.index));
  }
}

TEST(Mixture, ContinuesEachPartAtItsOwnCountWhenTheWeightsChange) {
  const auto a = std::make_shared<ShuffledSequences>(dataset_of({10, 20}), 4, Packing::isolated, 1);
  const auto b = std::make_shared<ShuffledSequences>(dataset_of({33}), 4, Packing::isolated, 2);
  const MixtureSource before({{a, 9}, {b, 1}});
  EXPECT_EQ(before.drawn(800), (std::vector<int64_t>{720, 80}));
  const MixtureSource now({{a, 1}, {b, 9}}, {.sequence = 800, .drawn = before.drawn(800)});
  std::vector<int64_t> counts = before.drawn(800);
  EXPECT_EQ(now.drawn(800), counts);
  for (int64_t i = 800; i < 880; ++i) {
    const auto at = now.place(i);
    ASSERT_EQ(at.index, counts[at.part]) << "sequence " << i;
    ++counts[at.part];
    EXPECT_EQ(now.batch(i, 1).ids, (at.part == 0 ? a : b)->batch(at.index, 1).ids);
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{728, 152}));
  EXPECT_EQ(now.drawn(880), counts);
  EXPECT_THROW(now.place(799), std::logic_error);
  EXPECT_THROW(now.drawn(799), std::logic_error);
  EXPECT_THROW(MixtureSource({{a, 1}, {b, 9}}, {.sequence = 8, .drawn = {8}}), std::logic_error);
}

TEST(Mixture, SharesAloneDetermineTheDivision) {
  EXPECT_EQ(MixtureDivision({9, 1}), MixtureDivision({0.9, 0.1}));
  EXPECT_FALSE(MixtureDivision({9, 1}) == MixtureDivision({1, 9}));
}

TEST(Mixture, BadWeightsAreUsageErrors) {
  const auto a = std::make_shared<ShuffledSequences>(dataset_of({10}), 4, Packing::isolated, 1);
  expect_contains(message_of(ExitCode::usage, [&] { MixtureSource({{a, 1}, {a, 0}}); }), "weight 1 is 0");
  expect_contains(message_of(ExitCode::usage, [&] { MixtureSource({{a, NAN}}); }), "weight 0 is nan");
  expect_contains(message_of(ExitCode::usage,
                             [&] {
                               MixtureSource({{a, 1}, {a, 1e-9}});
                             }),
                  "no sequence would be drawn");
}

TEST(Concatenated, HasItsPartsInOrder) {
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
  for (int32_t id : batch.ids) ++counts.at(id);
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
      EXPECT_LT(after.ids[t], 900) << "special ids never replace tokens";
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
  EXPECT_EQ(tests::target_count(source.batch(0, 1)), 6);
}

}  // namespace
}  // namespace hexad::data
