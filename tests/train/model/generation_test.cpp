// Sampling, and generation with cached keys and values.
#include "tools/train/model/generation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "framework/base/utf8.h"
#include "framework/data/tokenizer.h"
#include "layers/base/attention_chunks.h"
#include "parallel/comm/self_group.h"
#include "tests/training/training.h"
#include "tools/train/report/samples.h"

namespace hexad::tests {

using namespace autograd;
using namespace base;
using namespace layers;
using namespace tensor;
using namespace train;
using namespace verify;
namespace {

const comm::SelfGroup self;

SamplingOptions options(double temperature, int64_t top_k = 0, double top_p = 1) {
  SamplingOptions o;
  o.temperature = temperature, o.top_k = top_k, o.top_p = top_p;
  return o;
}

// Logits of four tokens whose probabilities are 0.1, 0.4, 0.2 and 0.3.
const std::vector<float> logits{std::log(1.0f), std::log(4.0f), std::log(2.0f), std::log(3.0f)};

TEST(Sample, TemperatureZeroTakesTheMostProbable) {
  for (double u : {0.0, 0.5, 0.999}) EXPECT_EQ(sample(logits, options(0), u), 1);
}

TEST(Sample, TiesGoToTheLowerId) {
  EXPECT_EQ(sample(std::vector<float>{1, 2, 2, 0}, options(0), 0.9), 1);
  EXPECT_EQ(sample(std::vector<float>{1, 2, 2, 0}, options(1, 1), 0.9), 1);
}

// Tokens are ordered on [0, 1) by decreasing probability: 1 up to 0.4, 3 up to 0.7, 2 up to 0.9, 0 up to 1.
TEST(Sample, FollowsTheProbabilities) {
  const std::pair<double, int32_t> cases[] = {
      {0, 1}, {0.399, 1}, {0.401, 3}, {0.699, 3}, {0.701, 2}, {0.901, 0}, {std::nextafter(1.0, 0.0), 0}};
  for (const auto& [u, id] : cases) EXPECT_EQ(sample(logits, options(1), u), id) << "u " << u;
}

TEST(Sample, TopKKeepsTheMostProbable) {
  EXPECT_EQ(sample(logits, options(1, 2), 0.57), 1);  // token 1 has probability 4 / 7
  EXPECT_EQ(sample(logits, options(1, 2), 0.58), 3);
  EXPECT_EQ(sample(logits, options(1, 2), 0.999), 3);
  EXPECT_EQ(sample(logits, options(1, 1), 0.999), 1);
  EXPECT_EQ(sample(logits, options(1, 100), 0.999), 0);
}

TEST(Sample, TopPKeepsTheSmallestSufficientSet) {
  EXPECT_EQ(sample(logits, options(1, 0, 0.39), 0.999), 1);
  EXPECT_EQ(sample(logits, options(1, 0, 0.41), 0.999), 3);
  EXPECT_EQ(sample(logits, options(1, 0, 0.89), 0.999), 2);
  EXPECT_EQ(sample(logits, options(1, 0, 0.95), 0.999), 0);
  EXPECT_EQ(sample(logits, options(1, 0, 0), 0.999), 1);
}

TEST(Sample, TopPIsAppliedAfterTopK) {
  EXPECT_EQ(sample(logits, options(1, 2, 0.57), 0.999), 1);  // 4 / 7 reaches top_p
  EXPECT_EQ(sample(logits, options(1, 2, 0.58), 0.999), 3);
}

TEST(Sample, TemperatureSharpensAndFlattens) {
  const double cold = 16.0 / 30;  // temperature 0.5 squares probabilities
  EXPECT_EQ(sample(logits, options(0.5), cold - 0.001), 1);
  EXPECT_EQ(sample(logits, options(0.5), cold + 0.001), 3);
  EXPECT_EQ(sample(logits, options(1e9), 0.26), 3);
  EXPECT_EQ(sample(logits, options(1e-9), 0.999), 1);
}

TEST(Sample, NanLogitIsNeverChosen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (double u : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample(std::vector<float>{nan, 1, nan, nan}, options(0), u), 1);
    EXPECT_EQ(sample(std::vector<float>{nan, 1, nan, nan}, options(1), u), 1);
  }
}

std::vector<int32_t> prompt(int64_t n) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 7 + 3) % 31);
  return ids;
}

// Returns the logits of all positions, computed in passes of the given numbers of tokens. Passes share cached keys and
// values if `cached` is true.
Tensor logits_in_passes(ModelInstance& instance, const std::vector<int64_t>& passes, bool cached) {
  const int64_t total = std::accumulate(passes.begin(), passes.end(), int64_t{0});
  const std::vector<int32_t> ids = prompt(total);
  KeyValueCache cache = instance.model.make_cache(total, instance.context);
  const Tensor all = Tensor::empty({total, instance.model.config().vocab}, Dtype::f64, instance.context);
  const auto policy = keep_policy();
  int64_t begin = 0;
  for (int64_t n : passes) {
    std::vector<int32_t> positions(n);
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(begin));
    MicroBatch batch;
    batch.sequences = 1, batch.length = n, batch.first_token = begin;
    batch.ids = Tensor::from<int32_t>(std::span(ids).subspan(begin, n), {n}, instance.context);
    batch.positions = Tensor::from<int32_t>(positions, {n}, instance.context);
    if (const auto size = instance.model.config().attention_chunk; size && !cached) {
      const std::vector<int32_t> first(n, 0), last(n, static_cast<int32_t>(n));
      const layers::AttentionChunks chunks = layers::attention_chunks(first, last, n, *size);
      batch.chunk_first = Tensor::from<int32_t>(chunks.first, {n}, instance.context);
      batch.chunk_last = Tensor::from<int32_t>(chunks.last, {n}, instance.context);
      batch.chunks = chunks.count;
    }
    Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
    KeyValueCache* const caches[] = {&cache};
    const Tensor part = instance.model.logits(
        tape, {.batch = batch, .caches = std::span<KeyValueCache* const>(caches).first(cached ? 1 : 0)});
    kernels::kernels(instance.context).pointwise.copy(instance.context.compute(), all.slice(0, begin, begin + n), part);
    begin += n, cache.length = begin;
  }
  return all;
}

class Cached : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Cached, LogitsMatchOnePassOverTheWholeSequence) {
  ModelInstance instance(small_recipe(GetParam()), Registry(), self);
  const Tensor whole = logits_in_passes(instance, {8}, false);
  for (const std::vector<int64_t>& passes :
       {std::vector<int64_t>{8}, {1, 1, 1, 1, 1, 1, 1, 1}, {3, 5}, {5, 1, 2}, {7, 1}})
    expect_close(whole, logits_in_passes(instance, passes, true), tolerance(Dtype::f64, 1000));
}
INSTANTIATE_TEST_SUITE_P(
    Models, Cached,
    testing::Values(
        std::vector<std::string>{}, std::vector<std::string>{"model.position=learned", "model.bias=true"},
        std::vector<std::string>{"model.qk_norm=head", "model.qkv_clip=1.0"},
        std::vector<std::string>{"model.qk_norm=all_heads", "model.rotary_share=0.5"},
        std::vector<std::string>{"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto",
                                 "model.latent.q_rank=6", "model.latent.kv_rank=5", "model.latent.nope_size=3",
                                 "model.latent.rope_size=2", "model.latent.value_size=4"},
        std::vector<std::string>{"model.window=3", "model.full_attention_every=2", "model.sinks=true"},
        std::vector<std::string>{"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto",
                                 "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2",
                                 "model.latent.value_size=4", "model.window=3", "model.sinks=true"},
        std::vector<std::string>{"model.yarn.factor=4", "model.yarn.original_context=2"},
        std::vector<std::string>{"model.kv_heads=1", "model.moe.shared_experts=1"},
        std::vector<std::string>{"model.head_bias=true", "model.moe.router=sparse_mixer"},
        std::vector<std::string>{"model.attention_chunk=3", "model.sinks=true"},
        std::vector<std::string>{"model.attention=latent", "model.kv_heads=auto", "model.head_size=auto",
                                 "model.latent.kv_rank=5", "model.latent.nope_size=3", "model.latent.rope_size=2",
                                 "model.latent.value_size=4", "model.attention_chunk=3"},
        std::vector<std::string>{"model.no_rotary_every=2", "model.temperature.scale=0.5", "model.temperature.floor=3",
                                 "model.qk_norm=unit", "model.moe.top_k=1", "model.moe.weigh=input",
                                 "model.moe.normalize=false"},
        std::vector<std::string>{"model.delta_net.heads=4", "model.delta_net.key_heads=2", "model.delta_net.key_size=3",
                                 "model.delta_net.value_size=5", "model.full_attention_every=2",
                                 "model.attention_gate=true", "model.norm=zero_centred_rms_norm", "model.qk_norm=head"},
        std::vector<std::string>{"model.moe.shared_experts=1", "model.moe.shared_gate=true",
                                 "model.moe.normalize_floor=0.7", "model.rotary_scaling.kind=ntk",
                                 "model.rotary_scaling.factor=4"}));

// Returns `count` tokens that continue `ids`. Each token is the most probable token according to a forward pass over
// all earlier tokens, without a cache.
std::vector<int32_t> greedy(ModelInstance& instance, std::vector<int32_t> ids, int64_t count) {
  const auto policy = keep_policy();
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) {
    data::Batch batch(1, static_cast<int64_t>(ids.size()));
    batch.ids = ids;
    std::iota(batch.positions.begin(), batch.positions.end(), 0);
    std::fill(batch.last.begin(), batch.last.end(), static_cast<int32_t>(ids.size()));
    const MicroBatch micro = make_micro_batch(batch, 0, 1, instance.context);
    Tape tape(instance.context.compute(), *policy, Tape::Mode::forget);
    const Tensor all = instance.model.logits(tape, {.batch = micro});
    const auto last = values_of(all.slice(0, batch.context - 1, batch.context));
    out.push_back(static_cast<int32_t>(std::max_element(last.begin(), last.end()) - last.begin()));
    ids.push_back(out.back());
  }
  return out;
}

SamplingOptions at_most(int64_t tokens, double temperature) {
  SamplingOptions o = options(temperature);
  o.max_tokens = tokens;
  return o;
}

TEST(Generate, TemperatureZeroIsGreedy) {
  ModelInstance instance(small_recipe(), Registry(), self);
  EXPECT_EQ(generate(instance, prompt(3), at_most(5, 0)), greedy(instance, prompt(3), 5));
}

TEST(Generate, StopsWhenTheContextIsFull) {
  ModelInstance instance(small_recipe(), Registry(), self);
  EXPECT_EQ(generate(instance, prompt(3), at_most(100, 0)).size(), 6u);  // the last token needs no position
  EXPECT_EQ(generate(instance, prompt(7), at_most(100, 0)).size(), 2u);
}

TEST(Generate, TooLongPromptIsCutAtItsBeginning) {
  ModelInstance instance(small_recipe(), Registry(), self);
  const auto ids = prompt(30);
  const auto out = generate(instance, ids, at_most(100, 0));
  EXPECT_EQ(out, generate(instance, std::span(ids).last(7), at_most(100, 0)));
  EXPECT_EQ(out.size(), 2u);
}

TEST(Generate, PromptBeginsLikeATextInTraining) {
  const auto bytes = data::make_byte_tokenizer();
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(prompt_of(*bytes, "ab", data::Packing::isolated), (Ids{'a', 'b'}));
  EXPECT_EQ(prompt_of(*bytes, "ab", data::Packing::joined), (Ids{bytes->end_of_document(), 'a', 'b'}));
  for (const data::Packing packing : {data::Packing::isolated, data::Packing::joined})
    EXPECT_EQ(prompt_of(*bytes, "", packing), (Ids{bytes->end_of_document()})) << "a prompt needs an id";
}

TEST(Generate, WarnsOfACutPrompt) {
  const auto bytes = data::make_byte_tokenizer();
  const auto warned = [&](const std::string& text, int64_t context, data::Packing packing = data::Packing::isolated) {
    return warn_of_cut(*bytes, prompt_of(*bytes, text, packing), context);
  };
  EXPECT_EQ(warned("", 8), "");
  EXPECT_EQ(warned("1234567", 8), "");
  EXPECT_EQ(warned("1234567", 8, data::Packing::joined), "");  // only the end-of-document id is cut off
  EXPECT_EQ(warned("12345678", 8, data::Packing::joined), warned("12345678", 8));
  EXPECT_EQ(warned("12345678", 8),
            "the prompt has 8 tokens, but the model's context (model.context: 8) takes 7: the first 1 (1 byte "
            "of text) is cut off");
  EXPECT_EQ(warned(std::string(1000, 'x'), 8),
            "the prompt has 1000 tokens, but the model's context (model.context: 8) takes 7: the first 993 (993 "
            "bytes of text) are cut off");
  EXPECT_NE(warned("12", 1), "");
}

// Source of the given texts in sequences of `context` tokens. Each text is followed by an end of document, and the last
// sequence is padded with mask tokens.
class TextSource final : public data::Source {
 public:
  TextSource(const data::Tokenizer& tokenizer, int64_t context, const std::vector<std::string>& texts)
      : context_(context) {
    for (const std::string& text : texts) {
      std::ranges::copy(tokenizer.encode(text), std::back_inserter(ids_));
      ids_.push_back(tokenizer.end_of_document());
    }
    while (std::ssize(ids_) % context != 0) ids_.push_back(tokenizer.mask());
  }
  int64_t context() const override { return context_; }
  int64_t size() const override { return std::ssize(ids_) / context_; }
  int64_t epoch(int64_t) const override { return 0; }
  void fill(int64_t index, const data::Row& row) const override {
    std::copy_n(ids_.begin() + index * context_, context_, row.ids.begin());
    std::ranges::fill(row.targets, data::ignored);
    std::ranges::fill(row.first, 0);
    std::ranges::fill(row.last, static_cast<int32_t>(context_));
  }

 private:
  int64_t context_;
  std::vector<int32_t> ids_;
};

TEST(HeldoutPrompts, AreTheFirstWordsOfEvenlySpreadDocuments) {
  const auto bytes = data::make_byte_tokenizer();
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i)
    texts.push_back("Text " + std::to_string(i) +
                    " begins so and goes on with many more words than anybody wants to read.");
  const TextSource heldout(*bytes, 64, texts);
  const auto prompts = heldout_prompts(heldout, *bytes, 3);
  EXPECT_EQ(prompts, (std::vector<std::string>{"Text 0 begins so and goes on with many",
                                               "Text 10 begins so and goes on with many",
                                               "Text 20 begins so and goes on with many"}));
  EXPECT_EQ(prompts, heldout_prompts(heldout, *bytes, 3));
  EXPECT_TRUE(heldout_prompts(heldout, *bytes, 0).empty());
}

TEST(HeldoutPrompts, AreValidTextForFewLongOrShortDocuments) {
  const auto bytes = data::make_byte_tokenizer();
  const auto of = [&](const std::vector<std::string>& texts, int64_t count) {
    return heldout_prompts(TextSource(*bytes, 16, texts), *bytes, count);
  };
  EXPECT_EQ(of({"short"}, 3), std::vector<std::string>{"short"});
  EXPECT_EQ(of({"one text of a few words"}, 2), (std::vector<std::string>{"one text of a few words", "words"}));
  EXPECT_EQ(of(std::vector<std::string>(40, "the same"), 3), std::vector<std::string>{"the same"});
  // There is one text, so prompts also begin in the middle of this text, at a whole character.
  std::string euros;
  for (int i = 0; i < 100; ++i) euros += "\xe2\x82\xac";
  for (const std::string& prompt : of({euros}, 3)) {
    EXPECT_EQ(base::valid_utf8(prompt), prompt);
    EXPECT_EQ(prompt.find("\xef\xbf\xbd"), prompt.npos);
    EXPECT_GE(prompt.size(), 9u);
  }
}

TEST(Generate, ContextOfOneTokenGivesOneToken) {
  ModelInstance instance(small_recipe({"model.context=1"}), Registry(), self);
  EXPECT_EQ(generate(instance, prompt(4), at_most(100, 0)).size(), 1u);
}

TEST(Generate, StopsBeforeAnyOfTheStopIds) {
  ModelInstance instance(small_recipe(), Registry(), self);
  const auto all = generate(instance, prompt(3), at_most(5, 0));
  SamplingOptions o = at_most(5, 0);
  o.stop_ids = {-1, all[2]};
  const auto stop = std::find(all.begin(), all.end(), all[2]);
  std::vector<int32_t> seen;
  EXPECT_EQ(generate(instance, prompt(3), o, [&](int32_t id) { seen.push_back(id); }),
            std::vector<int32_t>(all.begin(), stop));
  EXPECT_EQ(seen, std::vector<int32_t>(all.begin(), stop));
}

TEST(Generate, NeverChoosesAnIdBeyondTheTokenizersVocabulary) {
  ModelInstance instance(small_recipe(), Registry(), self);
  SamplingOptions o = at_most(5, 100);  // at this temperature, all ids are about equally likely
  const auto largest = [&] { return std::ranges::max(generate(instance, prompt(3), o)); };
  ASSERT_GE(largest(), 3) << "larger ids must occur without a limit";
  o.vocabulary = 3;
  for (o.seed = 1; o.seed <= 20; ++o.seed) EXPECT_LT(largest(), 3) << "seed " << o.seed;
}

TEST(Generate, ReturnsNothingForZeroTokens) {
  ModelInstance instance(small_recipe(), Registry(), self);
  EXPECT_TRUE(generate(instance, prompt(3), at_most(0, 1)).empty());
}

TEST(Generate, RepeatsWithTheSameSeedAndDiffersWithAnother) {
  ModelInstance instance(small_recipe(), Registry(), self);
  SamplingOptions o = at_most(5, 1.5);
  const auto first = generate(instance, prompt(3), o);
  EXPECT_EQ(first, generate(instance, prompt(3), o));
  o.seed = 2;
  EXPECT_NE(first, generate(instance, prompt(3), o));
}

const std::vector<std::vector<int32_t>> prompts{prompt(3), prompt(1), prompt(4)};

TEST(Generate, PromptsOfABatchGetTheTextsOfSeparatePrompts) {
  ModelInstance instance(small_recipe(), Registry(), self);
  for (const int64_t together : {1, 2, 8}) {
    SamplingOptions o = at_most(5, 1);
    o.together = together;
    std::vector<std::vector<int32_t>> streamed(prompts.size());
    const auto all = generate_each(instance, prompts, o, [&](size_t p, int32_t id) { streamed[p].push_back(id); });
    ASSERT_EQ(all.size(), prompts.size());
    for (size_t p = 0; p < prompts.size(); ++p) {
      EXPECT_EQ(all[p].ids, generate(instance, prompts[p], o)) << "prompt " << p << ", " << together << " together";
      EXPECT_EQ(streamed[p], all[p].ids);
    }
  }
}

TEST(CachedTokens, AreThoseOfTheLargestGroup) {
  const auto tokens = [&](int64_t together, int64_t max_tokens, const std::vector<std::string>& keys = {}) {
    SamplingOptions o = at_most(max_tokens, 0);
    o.together = together;
    return cached_tokens(small_recipe(keys).model, prompts, o);  // prompts of 3, 1 and 4 ids, context 8
  };
  EXPECT_EQ(tokens(8, 2), 3 + 1 + 4 + 3 * 2);
  EXPECT_EQ(tokens(2, 2), 3 + 1 + 2 * 2);
  EXPECT_EQ(tokens(1, 2), 4 + 2);
  EXPECT_EQ(tokens(8, 100), 3 * 8);
  EXPECT_EQ(tokens(8, 2, {"model.moe.capacity_factor=1"}), 4 + 2) << "prompts are computed one by one";
}

TEST(Generate, NamesTheReasonForTheEnd) {
  ModelInstance instance(small_recipe(), Registry(), self);
  const auto stop_of = [&](const SamplingOptions& o) {
    return generate_each(instance, std::span(prompts).first(1), o).front().stop;
  };
  EXPECT_EQ(stop_of(at_most(2, 0)), Stop::max_tokens);
  EXPECT_EQ(stop_of(at_most(100, 0)), Stop::context);
  SamplingOptions o = at_most(5, 0);
  o.stop_ids = {generate(instance, prompts.front(), o).front()};
  EXPECT_EQ(stop_of(o), Stop::end_of_document);
}

TEST(Generate, EndOfTurnEndsTheText) {
  ModelInstance instance(small_recipe(), Registry(), self);
  const auto all = generate(instance, prompts.front(), at_most(5, 0));
  SamplingOptions o = at_most(5, 0);
  o.end_of_turn = {all[1], all[2]};
  const auto end = std::search(all.begin(), all.end(), o.end_of_turn.begin(), o.end_of_turn.end());
  const Continuation c = generate_each(instance, std::span(prompts).first(1), o).front();
  EXPECT_EQ(c.ids, std::vector<int32_t>(all.begin(), end));
  EXPECT_EQ(c.stop, Stop::end_of_turn);
}

TEST(Generate, EndOfTurnIsTheReasonIfItsLastIdIsAStopId) {
  ModelInstance instance(small_recipe(), Registry(), self);
  SamplingOptions o = at_most(5, 0);
  o.stop_ids = o.end_of_turn = {generate(instance, prompts.front(), o).front()};
  const Continuation c = generate_each(instance, std::span(prompts).first(1), o).front();
  EXPECT_TRUE(c.ids.empty());
  EXPECT_EQ(c.stop, Stop::end_of_turn);
}

}  // namespace
}  // namespace hexad::tests
