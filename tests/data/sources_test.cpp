// Data sources chosen by name, and the checks of their sequences.
#include "framework/data/sources.h"

#include <gtest/gtest.h>

#include "framework/data/training_data.h"

namespace hexad::tests {
namespace {

using namespace data;

// Source whose sequence i has the ids first + i, first + i + 1, ... Calls `spoil` to change each sequence, if `spoil`
// is not empty.
class Counting final : public Source {
 public:
  using Spoil = std::function<void(int64_t index, const Row& row)>;
  Counting(int64_t context, int64_t size, int32_t first, Spoil spoil = {})
      : context_(context), size_(size), first_(first), spoil_(std::move(spoil)) {}

  int64_t context() const override { return context_; }
  int64_t size() const override { return size_; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const Row& row) const override {
    for (size_t t = 0; t < row.ids.size(); ++t) {
      row.ids[t] = first_ + static_cast<int32_t>(index) + static_cast<int32_t>(t);
      row.targets[t] = t + 1 == row.ids.size() ? ignored : row.ids[t] + 1;
      row.first[t] = 0, row.last[t] = static_cast<int32_t>(context_);
    }
    if (spoil_) spoil_(index, row);
  }

 private:
  int64_t context_, size_;
  int32_t first_;
  Spoil spoil_;
};

Sources with_counting(int64_t size, Counting::Spoil spoil = {}) {
  Sources sources;
  const auto make = [=](const SourceSpec& s) -> NamedData {
    return {.train = std::make_shared<Counting>(s.context, size, static_cast<int32_t>(s.number("first", 0)), spoil),
            .heldout = std::make_shared<Counting>(s.context, 2, 7)};
  };
  sources.add("counting", {.options = {"first"}, .make = make});
  return sources;
}

TrainingData open(const Sources& sources, std::vector<config::TextOption> options = {}) {
  DataConfig c;
  c.source = "counting", c.source_options = std::move(options);
  return open_training_data(c, {.context = 4, .vocab_size = 20}, sources);
}

template <class F>
std::string error_of(base::ExitCode code, F f) {
  try {
    f();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no Error was thrown; expected exit code " << static_cast<int>(code);
  return {};
}

TEST(Sources, FiniteSourceIsRepeatedForTraining) {
  const TrainingData data = open(with_counting(3), {{"first", "5"}});
  EXPECT_EQ(data.train->size(), Source::endless);
  EXPECT_EQ(data.train->epoch(2), 0);
  EXPECT_EQ(data.train->epoch(3), 1);
  EXPECT_EQ(data.train->batch(4, 1).ids, (std::vector<int32_t>{6, 7, 8, 9}));
  EXPECT_EQ(data.heldout->size(), 2);
  EXPECT_EQ(data.heldout->batch(1, 1).ids, (std::vector<int32_t>{8, 9, 10, 11}));
  EXPECT_EQ(data.tokenizer, nullptr);
}

TEST(Sources, UnknownAndNonNumericOptionsAreRefused) {
  const Sources sources = with_counting(3);
  EXPECT_EQ(error_of(base::ExitCode::usage,
                     [&] {
                       open(sources, {{"frist", "5"}});
                     }),
            "data.source_options.0.name (frist) is not an option of the source counting; it has: first");
  EXPECT_EQ(
      error_of(base::ExitCode::usage,
               [&] {
                 open(sources, {{"first", "five"}});
               }),
      "data.source_options.0.value (five) must be a finite number, because the option first of the source counting is "
      "a number");
}

TEST(Sources, BadValuesAreReportedWithTheirPlace) {
  const TrainingData data = open(with_counting(Source::endless));
  EXPECT_EQ(error_of(base::ExitCode::data, [&] { data.train->batch(17, 1); }),
            "data.source counting: sequence 17, token 2: target 20 is outside the vocabulary (model.vocab: 20), "
            "expected 0 to 19, or -1 for no target");
  const auto spoilt = [&](Counting::Spoil spoil) {
    return error_of(base::ExitCode::data, [&] { open(with_counting(3, spoil)); });
  };
  EXPECT_EQ(
      spoilt([](int64_t, const Row& row) { row.ids[3] = 20; }),
      "data.source counting: sequence 0, token 3: id 20 is outside the vocabulary (model.vocab: 20), expected 0 to 19");
  EXPECT_EQ(spoilt([](int64_t, const Row& row) { row.targets[1] = -2; }),
            "data.source counting: sequence 0, token 1: target -2 is outside the vocabulary (model.vocab: 20), "
            "expected 0 to 19, or -1 for no target");
  EXPECT_EQ(spoilt([](int64_t, const Row& row) { row.last[2] = 2; }),
            "data.source counting: sequence 0, token 2: the document is tokens [0, 2), expected a range that contains "
            "the token, inside the sequence");
}

TEST(Sources, ChangingSourceIsRefused) {
  int32_t calls = 0;
  EXPECT_EQ(
      error_of(base::ExitCode::data,
               [&] { open(with_counting(9, [&](int64_t, const Row& row) { row.ids[0] = calls++; })); }),
      "data.source counting: sequence 0 differs when it is read a second time; a sequence must depend only on its "
      "index");
}

TEST(Sources, SourceWithAnotherContextOrNoSequenceIsRefused) {
  EXPECT_EQ(error_of(base::ExitCode::data, [] { open(with_counting(0)); }),
            "data.source counting: has no sequences, expected at least one");
  Sources sources;
  sources.add("counting",
              {.make = [](const SourceSpec&) -> NamedData { return {.train = std::make_shared<Counting>(5, 3, 0)}; }});
  EXPECT_EQ(error_of(base::ExitCode::data, [&] { open(sources); }),
            "data.source counting: has sequences of 5 tokens, expected 4 (model.context)");
}

TEST(Sources, IncludeTheSyntheticSource) {
  DataConfig by_key, by_name;
  by_key.synthetic = true, by_name.source = "synthetic";
  const auto ids = [](const DataConfig& c) {
    return open_training_data(c, {.context = 8, .vocab_size = 50, .seed = 3}).train->batch(5, 2).ids;
  };
  EXPECT_EQ(ids(by_key), ids(by_name));
  EXPECT_EQ(Sources().names(), (std::vector<std::string>{"synthetic"}));
}

}  // namespace
}  // namespace hexad::tests
