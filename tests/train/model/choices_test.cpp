// Multiple-choice questions: reading, tokens, log-likelihoods and answers.
#include "tools/train/model/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "parallel/comm/self_group.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"
#include "tools/train/model/generation.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
namespace {

const comm::SelfGroup self;
constexpr double rounding = 1e-10;

std::vector<int32_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

LikelihoodRequest request_of(const ChoiceItem& item, size_t choice = 0, int64_t context = 100) {
  static const auto bytes = data::make_byte_tokenizer();
  return choice_request(*bytes, item, choice, context, "q.jsonl:1");
}

TEST(ChoiceRequest, PredictsTheChoiceAndItsDelimiter) {
  const LikelihoodRequest r = request_of({.context = "ab", .choices = {"cd", "e"}}, 1);
  EXPECT_EQ(r.ids, bytes_of("ab e"));
  EXPECT_EQ(r.predicted, 2);
}

TEST(ChoiceRequest, MovesWhiteSpaceAfterTheContextToTheContinuation) {
  const LikelihoodRequest r = request_of({.context = "ab\n ", .delimiter = "", .choices = {"cd"}});
  EXPECT_EQ(r.ids, bytes_of("ab\n cd"));
  EXPECT_EQ(r.predicted, 4);
}

TEST(ChoiceRequest, EndOfDocumentIsTheContextOfAnEmptyText) {
  const LikelihoodRequest r = request_of({.context = "", .delimiter = "", .choices = {"cd"}});
  std::vector<int32_t> expected = bytes_of("cd");
  expected.insert(expected.begin(), data::make_byte_tokenizer()->end_of_document());
  EXPECT_EQ(r.ids, expected);
  EXPECT_EQ(r.predicted, 2);
}

TEST(ChoiceRequest, BeginsWithTheIdsOfThePromptOfGenerate) {
  const auto bytes = data::make_byte_tokenizer();
  for (const std::string context : {"", "ab"}) {
    const LikelihoodRequest r = request_of({.context = context, .delimiter = "", .choices = {"cd"}});
    const std::vector<int32_t> prompt = prompt_of(*bytes, context, data::Packing::isolated);
    ASSERT_EQ(r.ids.size(), prompt.size() + 2);
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), r.ids.begin())) << context;
  }
}

TEST(ChoiceRequest, LongTextsLoseTheirBeginning) {
  const LikelihoodRequest r = request_of({.context = "0123456789", .choices = {"cd"}}, 0, 5);
  EXPECT_EQ(r.ids, bytes_of("789 cd"));
  EXPECT_EQ(r.predicted, 3);
}

TEST(ChoiceRequest, ChoiceBeyondTheContextIsAnError) {
  EXPECT_EQ(message_of(ExitCode::data,
                       [] {
                         request_of({.context = "a", .choices = {"x", "cdefg"}}, 1, 5);
                       }),
            "q.jsonl:1: choice 1 has 6 tokens; expected at most 5 (model.context)");
}

TEST(ChoiceAnswer, IsRefusedForNan) {
  const ChoiceItem item{.line = 3, .context = "a", .choices = {"b", "c"}};
  const std::string message = message_of(ExitCode::numeric, [&] {
    answer_of(item, {-1, std::numeric_limits<double>::quiet_NaN()});
  });
  EXPECT_EQ(message,
            "the log-likelihood of choice 1 of the question in line 3 is not a number; expected finite weights and "
            "activations of the model");
}

TEST(ChoiceAnswer, TakesLargestSumAndLargestMeans) {
  const ChoiceItem item{.context = "a", .choices = {"long choice", "b", "c"}};
  const ChoiceAnswer answer = answer_of(item, {-5, -2, -2});
  EXPECT_EQ(answer.chosen, 1) << "the first of two equal choices";
  EXPECT_EQ(answer.chosen_norm, 0) << "-5 / 11 is above -2 / 1";
  EXPECT_EQ(answer.chosen_bytes, 0) << "-5 / 11 is above -2 / 1";
}

TEST(ChoiceAnswer, CharactersAreCountedApartFromBytes) {
  const ChoiceItem item{.context = "a", .choices = {"\xe6\x96\x87\xe5\xad\x97", "abc"}};  // 2 characters, 6 bytes
  const ChoiceAnswer answer = answer_of(item, {-2.5, -3});
  EXPECT_EQ(answer.chosen_norm, 1) << "-3 / 3 is above -2.5 / 2";
  EXPECT_EQ(answer.chosen_bytes, 0) << "-2.5 / 6 is above -3 / 3";
}

std::string error_of(const std::string& text) {
  const Scratch folder;
  std::ofstream(folder / "q.jsonl") << text;
  const std::string message = message_of(ExitCode::data, [&] { read_choice_items(folder / "q.jsonl"); });
  const size_t at = message.find("q.jsonl");
  return at == message.npos ? message : message.substr(at);
}

TEST(ReadChoiceItems, ReadsContextOrQuery) {
  const Scratch folder;
  std::ofstream(folder / "q.jsonl") << R"({"context": "a", "choices": ["b", "c"], "gold": 1})"
                                    << "\n\n"
                                    << R"({"query": "d", "choices": ["e"], "gold": 0, "delimiter": "", "id": 7})"
                                    << "\n";
  const auto items = read_choice_items(folder / "q.jsonl");
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].context, "a");
  EXPECT_EQ(items[0].choices, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(items[0].gold, 1);
  EXPECT_EQ(items[0].delimiter, " ");
  EXPECT_EQ(items[1].line, 3);
  EXPECT_EQ(items[1].context, "d");
  EXPECT_EQ(items[1].delimiter, "");
}

TEST(ReadChoiceItems, NamesFileLineAndMistake) {
  const std::string good = R"({"context": "a", "choices": ["b"], "gold": 0})"
                           "\n";
  EXPECT_EQ(error_of(good + R"({"context": "a", "choices": ["b", "c"], "gold": 2})"),
            R"(q.jsonl:2: "gold" is 2, expected a whole number from 0 to 1; nearest: 1)");
  EXPECT_EQ(error_of(R"({"context": "a", "choices": [], "gold": 0})"),
            R"(q.jsonl:1: "choices" is empty, expected at least one text)");
  EXPECT_EQ(error_of(R"({"context": "a", "choices": ["b", ""], "gold": 0})"),
            "q.jsonl:1: choice 1 is empty, expected a text");
  EXPECT_EQ(error_of(R"({"choices": ["b"], "gold": 0})"),
            R"(q.jsonl:1: has no key "context" or "query"; expected one of them)");
  EXPECT_EQ(error_of(R"({"context": "a", "choices": ["b"]})"),
            R"(q.jsonl:1: has no key "gold"; expected the index of the right choice)");
  EXPECT_NE(error_of("nonsense").find("q.jsonl:1: is not JSON"), std::string::npos);
  EXPECT_NE(error_of("\n").find("has no item"), std::string::npos);
}

// Returns five requests of several lengths. A pass computes two requests, so the last pass computes only one.
std::vector<LikelihoodRequest> requests() {
  std::vector<LikelihoodRequest> all;
  for (const auto& [length, predicted] : {std::pair{9, 2}, {3, 1}, {5, 4}, {2, 1}, {7, 3}}) {
    LikelihoodRequest r{.predicted = predicted};
    for (int t = 0; t < length; ++t) r.ids.push_back((t * 7 + length) % 31);
    all.push_back(r);
  }
  return all;
}

double expected_sum(ModelInstance& instance, const LikelihoodRequest& r) {
  const int64_t inputs = std::ssize(r.ids) - 1;
  data::Batch batch(1, inputs);
  std::copy(r.ids.begin(), r.ids.end() - 1, batch.ids.begin());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  std::ranges::fill(batch.last, static_cast<int32_t>(inputs));
  const MicroBatch micro = make_micro_batch(batch, 0, 1, instance.context);
  const auto policy = keep_policy();
  Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
  const Tensor logits = instance.model.logits(tape, {.batch = micro});
  double sum = 0;
  for (int64_t t = inputs - r.predicted; t < inputs; ++t) {
    const auto row = values_of(logits.slice(0, t, t + 1));
    double total = 0;
    for (const double l : row) total += std::exp(l);
    sum += row[r.ids[t + 1]] - std::log(total);
  }
  return sum;
}

TEST(LogLikelihoods, AreSumsOfLogProbabilities) {
  const Recipe recipe = small_recipe();
  ModelInstance instance(recipe, Registry(), self);
  const auto all = requests();
  const std::vector<double> sums = log_likelihoods(instance, recipe, all);
  ASSERT_EQ(sums.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_NEAR(sums[i], expected_sum(instance, all[i]), rounding) << "request " << i;
}

TEST(LogLikelihoods, RequestsWithTooManyPredictedIdsAreRefused) {
  const Recipe recipe = small_recipe();
  ModelInstance instance(recipe, Registry(), self);
  const std::vector<LikelihoodRequest> all{{.ids = {1, 2, 3}, .predicted = 3}};
  try {
    log_likelihoods(instance, recipe, all);
    FAIL() << "3 predicted ids of 3 were accepted; expected an error";
  } catch (const std::logic_error& e) {
    EXPECT_EQ(e.what(),
              cat("[log_likelihoods] 3 of 3 ids are predicted; expected from 1 to 2 predicted ids, and from 2 to ",
                  recipe.model.context + 1, " ids"));
  }
}

// Compares the sums of all requests in one call with the sums of each request alone.
void expect_independent(const Recipe& recipe, const std::string& what) {
  ModelInstance instance(recipe, Registry(), self);
  const auto all = requests();
  const std::vector<double> sums = log_likelihoods(instance, recipe, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<double> alone = log_likelihoods(instance, recipe, std::span(all).subspan(i, 1));
    EXPECT_NEAR(sums[i], alone.front(), rounding) << what << ", request " << i;
  }
}

TEST(LogLikelihoods, DoNotDependOnOtherRequestsUnderCapacity) {
  for (const char* scope : {"micro_batch", "sequence"})
    expect_independent(small_recipe({"model.moe.capacity_factor=0.5", base::cat("model.moe.capacity_scope=", scope)}),
                       scope);
}

TEST(LogLikelihoods, DoNotDependOnOtherRequestsIfTheIndexOfATokenDeterminesItsExperts) {
  for (const char* routing : {"balanced", "zipf"})
    expect_independent(small_recipe({base::cat("model.moe.routing=", routing)}), routing);
}

TEST(LogLikelihoods, AreTheSameInSeveralLayouts) {
  const Recipe one = small_recipe();
  ModelInstance alone(one, Registry(), self);
  const std::vector<double> expected = log_likelihoods(alone, one, requests());
  const std::pair<int, std::vector<std::string>> layouts[] = {{2, {}},
                                                              {2, {"parallel.tp=2"}},
                                                              {2, {"parallel.pp=2"}},
                                                              {2, {"parallel.cp=2"}},
                                                              {4, {"parallel.tp=2", "parallel.pp=2"}},
                                                              {4, {"parallel.ep=4"}}};
  for (const auto& [ranks, overrides] : layouts)
    on_ranks(ranks, [&, &keys = overrides](const comm::ProcessGroup& world) {
      const Recipe recipe = small_recipe(keys);
      ModelInstance instance(recipe, Registry(), world);
      const std::vector<double> sums = log_likelihoods(instance, recipe, requests());
      ASSERT_EQ(sums.size(), expected.size());
      for (size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(sums[i], expected[i], rounding) << (keys.empty() ? "dp 2" : keys.front());
    });
}

}  // namespace
}  // namespace hexad::tests
