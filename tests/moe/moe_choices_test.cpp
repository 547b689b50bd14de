// List of the choices of schedule.moe, and the schedules that combine these choices.
#include <gtest/gtest.h>

#include "framework/config/typed_recipe.h"
#include "layers/moe/schedule/moe_choices.h"
#include "layers/moe/schedule/schedule_rules.h"

namespace hexad::tests {
namespace {

using namespace moe;

TEST(MoeChoices, MatchTheKeysOfTheSectionInOrder) {
  std::string keys;
  each_choice([&](std::string_view key, auto, const ChoiceFacts&) { keys += base::cat(key, " "); });
  std::string written;
  std::istringstream lines(config::write(MoeScheduleConfig{}));
  for (std::string line; std::getline(lines, line);) written += line.substr(0, line.find(':')) + " ";
  EXPECT_EQ(written, keys + "trial_share redecide_every ");
}

TEST(MoeChoices, ReferenceNamesValuesWithTheirDescriptions) {
  const std::string reference = config::reference<MoeScheduleConfig>();
  const auto expect_words = [&](auto e) {
    for (const auto& word : words(e)) {
      EXPECT_NE(reference.find(base::cat('`', word.name, '`')), std::string::npos) << word.name;
      EXPECT_NE(reference.find(word.description), std::string::npos) << word.description;
    }
  };
  expect_words(Duplicates{}), expect_words(Overlap{}), expect_words(ChunkBy{}), expect_words(ReuseStrategy{});
  expect_words(Gemms{}), expect_words(SharedExperts{}), expect_words(HotExperts{}), expect_words(CapacityPadding{});
  EXPECT_NE(reference.find("baseline (DeepSpeed-MoE), replicated (MoNTA's baseline), drop (DTD, MoNTA O1)"),
            std::string::npos);
}

// Returns the section schedule.moe of a recipe that sets only one of its keys.
MoeScheduleConfig with(const std::string& key, const std::string& value) {
  config::Problems problems;
  auto c = config::read<MoeScheduleConfig>(config::parse(key + ": " + value, "test"), problems);
  EXPECT_FALSE(problems.any()) << problems.text();
  return c;
}

TEST(MoeChoices, VariedValuesAreLegalAndBeginWithTheDefault) {
  size_t varied = 0;
  for (const VariedChoice& choice : varied_choices()) {
    const std::string key(choice.key);
    EXPECT_EQ(config::write(with(key, std::string(choice.values.front().value))), config::write(MoeScheduleConfig{}));
    for (const auto& [value, also] : choice.values) {
      with(key, std::string(value));
      if (!also.empty())
        with(std::string(also.substr(0, also.find('='))), std::string(also.substr(also.find('=') + 1)));
      ++varied;
    }
  }
  EXPECT_GE(varied, 15u);
}

// Chunks on one rank also limit the threads of experts, and the pass on one rank also computes shared experts.
TEST(MoeChoices, ComputeShareAndSharedMatterOnOneRank) {
  int tested = 0;
  for (const VariedChoice& choice : varied_choices()) {
    const bool on_one_rank = choice.key == "compute_share" || choice.key == "shared";
    if (!on_one_rank && choice.key != "rows") continue;
    EXPECT_EQ(choice.matters({}), on_one_rank) << choice.key;
    ++tested;
  }
  EXPECT_EQ(tested, 3);
}

TEST(MoeSchedule, IsReadBackFromItsName) {
  MoeSchedule s;
  EXPECT_EQ(schedule_named(to_string(s)), s);
  s.duplicates = Duplicates::drop, s.chunk_by = ChunkBy::tokens, s.chunks = 8, s.order = "returns_last";
  s.esp_exchange = ep::EspExchange::direct, s.memory_reuse = ReuseStrategy::s3, s.memory_limit = 123456;
  s.gemms = Gemms::by_load, s.dense_rows = 77, s.compute_share = 0.5, s.wire = kernels::WireFormat::fp8;
  s.shared = SharedExperts::beside, s.rows = ep::RowOf::token, s.hot_experts = HotExperts::shadow, s.hot_load = 1.5;
  EXPECT_TRUE(schedule_named(to_string(s)) == s) << to_string(s);
  s.compute_share = 0.123456789, s.hot_load = 4.0 / 3;
  EXPECT_TRUE(schedule_named(to_string(s)) == s) << to_string(s);
  for (const char* wrong :
       {"", "drop", "duplicates", "duplicates ", "duplicates none", "chunks 4x", "cut tokens", "chunks 4, rows"})
    EXPECT_FALSE(schedule_named(wrong)) << wrong;
}

TEST(MoeChoices, OnlyOpenChoicesAreTakenFromASchedule) {
  MoeScheduleConfig c;
  c.duplicates.reset(), c.chunk_by = ChunkBy::tokens, c.chunks = 3;
  MoeSchedule s;
  s.duplicates = Duplicates::drop, s.chunks = 8, s.esp_exchange = ep::EspExchange::direct;
  c.choose_open(s);
  EXPECT_EQ(c.duplicates, Duplicates::drop);
  EXPECT_EQ(c.chunk_by, ChunkBy::tokens);
  EXPECT_EQ(c.chunks, 3);
  EXPECT_EQ(c.esp_exchange, ep::EspExchange::direct);
  EXPECT_FALSE(c.open());
}

TEST(MoeChoices, OpenKeysAreListedAndSettled) {
  MoeScheduleConfig c;
  EXPECT_FALSE(c.open());
  EXPECT_EQ(c.settled(), MoeSchedule{});
  c.chunk_by.reset(), c.order.reset();
  EXPECT_EQ(c.open_keys(), (std::vector<std::string_view>{"chunk_by"}));  // without chunks, no order is chosen
  c.chunk_by = ChunkBy::tokens;
  EXPECT_EQ(c.open_keys(), (std::vector<std::string_view>{"chunks", "order"}));
  EXPECT_EQ(c.settled().chunks, 2);
  MoeSchedule s;
  s.duplicates = Duplicates::drop, s.gemms = Gemms::dense, s.memory_limit = 4096;
  c.choose(s);
  EXPECT_EQ(c.settled(), s);
  EXPECT_FALSE(c.open());
}

TEST(MoeChoices, NamesIncludeNonDefaultSettings) {
  MoeSchedule s;
  EXPECT_EQ(to_string(s), "duplicates pause_before_gate, overlap sequential, chunk_by none, chunks 1");
  s.esp_exchange = ep::EspExchange::direct, s.memory_limit = 4096, s.order = "returns_last", s.compute_share = 0.5;
  EXPECT_EQ(
      to_string(s),
      "duplicates pause_before_gate, overlap sequential, chunk_by none, chunks 1, esp_exchange direct, memory_limit "
      "4096, order returns_last, compute_share 0.5");
}

TEST(MoeChoices, UnusualChoicesDifferFromTheDefault) {
  MoeSchedule s;
  EXPECT_EQ(unusual_choices(s), "");
  s.chunk_by = ChunkBy::tokens, s.chunks = 4;
  EXPECT_EQ(unusual_choices(s), "chunk_by tokens, chunks 4");
}

TEST(MoeChoices, CombinationsOmitEquivalentSchedules) {
  MoeScheduleConfig c;
  c.duplicates.reset(), c.chunk_by.reset(), c.rows.reset();
  c.chunks = 1;
  EXPECT_EQ(combinations(c, {}).size(), 3u);  // with one ep rank, chunk_by: nodes is left out
  EXPECT_EQ(combinations(c, {.ep = 2}).size(), 4u * 2);
  EXPECT_EQ(combinations(c, {.tp = 2, .ep = 2}).size(), 5u * 4 * 2);
  c.duplicates = Duplicates::drop;
  EXPECT_EQ(combinations(c, {.tp = 2, .etp = 2}).size(), 3u * 2 * 2);  // two values of esp_exchange: auto and direct
  c.esp_exchange = ep::EspExchange::gather;
  EXPECT_EQ(combinations(c, {.tp = 2, .etp = 2}).size(), 3u * 2);
}

TEST(MoeChoices, OpenGemmsAreGroupedOrByLoadWithItsThreshold) {
  MoeScheduleConfig c = with("gemms", "auto");
  EXPECT_EQ(c.open_keys(), (std::vector<std::string_view>{"gemms"}));
  ASSERT_EQ(combinations(c, {}).size(), 1u) << "without a threshold, by_load is not tried";
  EXPECT_EQ(combinations(c, {})[0], MoeSchedule{});
  c.dense_rows = 32;
  EXPECT_EQ(c.settled(), MoeSchedule{}) << "until the choice, no schedule reads the threshold";
  const auto all = combinations(c, {.has_dense_rows = true});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(to_string(all[1]),
            "duplicates pause_before_gate, overlap sequential, chunk_by none, chunks 1, gemms by_load, dense_rows 32");
  for (const MoeSchedule& s : all) EXPECT_TRUE(refusals({.has_dense_rows = true}, s).empty()) << to_string(s);
  EXPECT_EQ(with_late_choices(all[1], c.settled()), all[0]);
  for (const MoeSchedule& s : all) {
    MoeScheduleConfig chosen = c;
    chosen.choose_open(s);
    EXPECT_EQ(chosen.settled(), s) << "only by_load has the threshold";
  }
}

TEST(MoeChoices, OnlyGemmsAndFusedKeepAllBitsAndOnlyOnACpu) {
  MoeSchedule by_load, fused;
  fused.fused = Fused::on;
  EXPECT_TRUE(same_bits({}, fused, false));
  EXPECT_FALSE(same_bits({}, fused, true));
  by_load.gemms = Gemms::by_load, by_load.dense_rows = 4;
  EXPECT_TRUE(same_bits({}, by_load, false));
  EXPECT_FALSE(same_bits({}, by_load, true));
  EXPECT_TRUE(same_bits(by_load, by_load, true));
  by_load.chunk_by = ChunkBy::tokens, by_load.chunks = 2;
  EXPECT_FALSE(same_bits({}, by_load, false)) << "gradients of experts are sums over chunks";
}

TEST(MoeChoices, RefusalsNameTheKey) {
  MoeSchedule s;
  s.dense_rows = 8, s.shared = SharedExperts::beside;
  const std::vector<Refusal> all = refusals({}, s);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].key, "dense_rows");
  EXPECT_EQ(all[0].what, "is read only by schedule.moe.gemms: by_load; set gemms: by_load, or dense_rows: auto");
  EXPECT_EQ(all[1].key, "shared");
  EXPECT_TRUE(refusals({}, MoeSchedule{}).empty());
}

TEST(MoeChoices, GroupsOfExpertsNeedSeveralExpertsOnARank) {
  MoeSchedule s;
  s.chunk_by = ChunkBy::experts, s.chunks = 2;
  EXPECT_TRUE(refusals({.ep = 2, .experts = 4}, s).empty());
  const std::vector<Refusal> all = refusals({.ep = 4, .experts = 4}, s);
  ASSERT_EQ(all.size(), 1u) << "no number of chunks is legal, so none is suggested";
  EXPECT_EQ(all[0].key, "chunk_by");
  EXPECT_EQ(all[0].what,
            "divides the experts of a rank, but every rank has one (4 / 4); legal here: none, tokens, nodes");
}

TEST(MoeChoices, RefusedExchangeIsNotNamedTwice) {
  MoeSchedule s;
  s.esp_exchange = ep::EspExchange::replicated;
  ASSERT_EQ(refusals({}, s).size(), 1u);
  EXPECT_EQ(refusals({}, s)[0].what.find("needs schedule.moe.duplicates: baseline or replicated"), 0u);
}

TEST(MoeChoices, SequenceNeedsChunksAndIsNotTried) {
  MoeSchedule s;
  s.overlap = Overlap::none;
  ASSERT_EQ(refusals({}, s).size(), 1u);
  EXPECT_EQ(refusals({}, s)[0].key, "overlap");
  EXPECT_EQ(refusals({}, s)[0].what, "needs chunks: set schedule.moe.chunk_by, or overlap: sequential");
  s.chunk_by = ChunkBy::tokens, s.chunks = 2;
  EXPECT_TRUE(refusals({}, s).empty());
  s.memory_reuse = ReuseStrategy::s4;
  EXPECT_TRUE(refusals({}, s).empty());
  EXPECT_FALSE(s.uses_lanes());

  MoeScheduleConfig c;
  c.overlap.reset();
  for (const MoeSchedule& tried : combinations(c, {.tp = 2, .ep = 2})) EXPECT_FALSE(tried.in_sequence());
}

TEST(MoeChoices, MemoryReuseIsRefusedWithAReason) {
  const auto reason = [](const ScheduleSite& site, auto set) -> std::string {
    MoeSchedule s;
    s.memory_reuse = ReuseStrategy::s4;
    set(s);
    for (const Refusal& refusal : refusals(site, s))
      if (refusal.key == "memory_reuse") return refusal.what;
    return "";
  };
  const ScheduleSite site{.tp = 2, .etp = 2, .ep = 2, .experts = 8};
  for (const Duplicates d : {Duplicates::drop, Duplicates::pause_after_gate, Duplicates::replicated})
    EXPECT_EQ(reason(site, [&](MoeSchedule& s) { s.duplicates = d; }), "");
  EXPECT_EQ(reason({.tp = 2}, [](MoeSchedule& s) { s.duplicates = Duplicates::baseline; }), "");
  EXPECT_NE(reason(site, [](MoeSchedule& s) { s.duplicates = Duplicates::baseline; }).find("etp ranks gather"),
            std::string::npos);
  EXPECT_NE(
      reason(site, [](MoeSchedule& s) { s.chunk_by = ChunkBy::experts, s.chunks = 2; }).find("as soon as its chunk"),
      std::string::npos);
  EXPECT_NE(reason(site, [](MoeSchedule& s) { s.overlap = Overlap::a2a_allgather, s.chunks = 2; }).find("together"),
            std::string::npos);
}

TEST(MoeChoices, FusedExpertsAreRefusedWithAReason) {
  const auto reasons = [](const ScheduleSite& site, auto set) {
    MoeSchedule s;
    s.fused = Fused::on;
    set(s);
    std::string all;
    for (const Refusal& refusal : refusals(site, s)) all += refusal.key + " " + refusal.what + "\n";
    return all;
  };
  EXPECT_EQ(reasons({}, [](MoeSchedule&) {}), "");
  EXPECT_EQ(reasons({}, [](MoeSchedule& s) { s.fused.reset(); }), "");
  EXPECT_EQ(reasons({.fuses_experts = false}, [](MoeSchedule& s) { s.fused.reset(); }),
            "fused needs model.moe.expert: swiglu, without model.moe.expert_bias and model.swiglu_limit; legal here: "
            "off\n");
  EXPECT_EQ(reasons({.fuses_experts = false}, [](MoeSchedule& s) { s.fused = Fused::off; }), "");
  EXPECT_NE(reasons({}, [](MoeSchedule& s) { s.gemms = Gemms::dense; }).find("schedule.moe.gemms: grouped or by_load"),
            std::string::npos);
  EXPECT_NE(reasons({}, [](MoeSchedule& s) { s.hot_experts = HotExperts::shadow; }).find("hot_experts: stay"),
            std::string::npos);
}

TEST(MoeChoices, FusedLeftToADuelStaysOpenInEverySchedule) {
  MoeScheduleConfig c;
  c.fused.reset();
  EXPECT_FALSE(c.open()) << "a duel decides, not trials of schedules";
  c.overlap.reset();
  const std::vector<MoeSchedule> all = combinations(c, {.tp = 2, .ep = 2});
  EXPECT_GT(all.size(), 1u);
  for (const MoeSchedule& s : all) {
    EXPECT_FALSE(s.fused.has_value());
    EXPECT_TRUE(schedule_named(to_string(s)) == s) << to_string(s);
  }
  MoeSchedule on;
  on.fused = Fused::on;
  EXPECT_NE(to_string(on).find("fused on"), std::string::npos) << to_string(on);
  EXPECT_TRUE(schedule_named(to_string(on)) == on);
}

TEST(MoeChoices, ShadowsRefuseTokenRowsAndMemoryLimits) {
  MoeSchedule s;
  s.hot_load = 2;
  ASSERT_EQ(refusals({}, s).size(), 1u);
  EXPECT_EQ(refusals({}, s)[0].key, "hot_load");
  s.hot_experts = HotExperts::shadow;
  EXPECT_TRUE(refusals({}, s).empty());
  s.rows = ep::RowOf::token;
  ASSERT_EQ(refusals({}, s).size(), 1u);
  EXPECT_EQ(refusals({}, s)[0].key, "hot_experts");
  s.rows = ep::RowOf::slot, s.memory_reuse = ReuseStrategy::s4, s.memory_limit = 4096;
  const std::vector<Refusal> limited = refusals({.least_memory_limit = [](ReuseStrategy) { return int64_t{1}; }}, s);
  ASSERT_EQ(limited.size(), 1u);
  EXPECT_NE(limited[0].what.find("schedule.moe.memory_limit: none"), std::string::npos) << limited[0].what;
}

}  // namespace
}  // namespace hexad::tests
