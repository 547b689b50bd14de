// Conversion of documents to token ids.
#include "framework/data/encoding.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

TEST(EncodeDocument, AllOfAPlainTextIsLearned) {
  const auto tokenizer = make_byte_tokenizer();
  const EncodedDocument plain = encode_document(*tokenizer, {.text = "ab"}, false);
  EXPECT_EQ(plain.ids, (std::vector<int32_t>{'a', 'b', 256}));
  EXPECT_TRUE(plain.loss_mask.empty());
  EXPECT_EQ(plain.text_bytes, 2);
  EXPECT_EQ(encode_document(*tokenizer, {.text = "ab"}, true).loss_mask, (std::vector<uint8_t>{1, 1, 1}));
}

TEST(EncodeDocument, MaskCoversAnswersAndTheEndAfterALastAnswer) {
  const auto tokenizer = make_byte_tokenizer();
  Document document{
      .text = "Q:hiA:yo\n",
      .parts = {{2, true, false}, {4, false, false}, {6, true, false}, {8, false, true}, {9, true, true}}};
  EXPECT_EQ(encode_document(*tokenizer, document, true).loss_mask,
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
  document.parts[4].answer = false;
  EXPECT_EQ(encode_document(*tokenizer, document, true).loss_mask,
            (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1, 0, 1}));
  document.parts[3].answer = false;
  EXPECT_EQ(encode_document(*tokenizer, document, true).loss_mask, std::vector<uint8_t>(10, 0));
}

// Byte tokenizer with one special token "<s>" at the beginning of each document.
class SpecialTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override { return bytes_->encode(text); }
  using Tokenizer::encode_with_special;
  std::vector<int32_t> encode_with_special(std::string_view text, const ByteRanges& trusted) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size();) {
      const bool special = text.substr(i).starts_with("<s>") && trusted.contains(i, i + 3);
      ids.push_back(special ? 258 : static_cast<unsigned char>(text[i]));
      i += special ? 3 : 1;
    }
    return ids;
  }
  std::string_view special_text(int32_t id) const override { return id == 258 ? "<s>" : ""; }
  int32_t vocab_size() const override { return 261; }
  std::string_view bytes_of(int32_t id) const override { return id < 256 ? bytes_->bytes_of(id) : std::string_view(); }
  TokenizerContents contents() const override { return bytes_->contents(); }
  std::optional<int32_t> beginning_of_document() const override { return 258; }

 private:
  std::unique_ptr<Tokenizer> bytes_ = make_byte_tokenizer();
};

class RefusingTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view) const override {
    base::fail(base::ExitCode::resource, "the text cannot be encoded");
  }
  int32_t vocab_size() const override { return 258; }
  std::string_view bytes_of(int32_t) const override { return {}; }
  TokenizerContents contents() const override { return make_byte_tokenizer()->contents(); }
};

TEST(EncodeDocument, ErrorsOfTheTokenizerNameFileAndLine) {
  try {
    encode_document(RefusingTokenizer(), {.text = "a", .place = "b.jsonl:7"}, false);
    ADD_FAILURE() << "no Error was thrown; expected the error of the tokenizer";
  } catch (const base::Error& error) {
    EXPECT_EQ(std::string(error.what()), "b.jsonl:7: the text cannot be encoded");
    EXPECT_EQ(error.code(), base::ExitCode::resource);
  }
}

TEST(EncodeDocument, SpecialTokensAreRecognisedOnlyInMarks) {
  const SpecialTokenizer tokenizer;
  const Document chat{.text = "<s><s>a", .parts = {{3, true, false}, {6, false, false}, {7, false, true}}};
  const EncodedDocument encoded = encode_document(tokenizer, chat, true);
  EXPECT_EQ(encoded.ids, (std::vector<int32_t>{258, '<', 's', '>', 'a', 259}))
      << "the beginning token is not written twice";
  EXPECT_EQ(encoded.loss_mask, (std::vector<uint8_t>{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(encode_document(tokenizer, {.text = "<s>"}, false).ids, (std::vector<int32_t>{258, '<', 's', '>', 259}));
}

TEST(EncodeDocument, ConversationGetsTheBeginningOfDocuments) {
  const SpecialTokenizer tokenizer;
  const Document chat{.text = "ab", .parts = {{1, true, false}, {2, false, true}}};
  const EncodedDocument encoded = encode_document(tokenizer, chat, true);
  EXPECT_EQ(encoded.ids, (std::vector<int32_t>{258, 'a', 'b', 259}));
  EXPECT_EQ(encoded.loss_mask, (std::vector<uint8_t>{0, 0, 1, 1}));
}

using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

std::unique_ptr<Tokenizer> loaded(const nlohmann::json& json) {
  const ScratchFolder folder;
  return load_tokenizer(folder.write("tokenizer.json", json.dump()));
}

// Builder of a conversation in the form of a model's template.
class ModelChat {
 public:
  ModelChat() { document_.from_chat_template = true; }
  ModelChat& mark(std::string_view text) { return add(text, true, false); }
  ModelChat& message(std::string_view text) { return add(text, false, false); }
  ModelChat& answer(std::string_view text) { return add(text, false, true); }
  ModelChat& end_of_answer(std::string_view text) { return add(text, true, true); }
  const Document& document() const { return document_; }

 private:
  ModelChat& add(std::string_view text, bool mark, bool answer) {
    document_.text += text;
    document_.parts.push_back({document_.text.size(), mark, answer});
    return *this;
  }
  Document document_;
};

TEST(EncodeConversation, TokensOfSentencePieceSpanMarksAndMessages) {
  const auto t = loaded(fallback_json());
  const ModelChat chat = ModelChat().mark("<s>[I] ").message("a").mark("[/I]").answer(" ab").end_of_answer("</s>");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  const auto byte = [](char c) { return 3 + c; };
  EXPECT_EQ(encoded.ids, (Ids{1, 259, byte('['), byte('I'), byte(']'), 262, byte('['), byte('/'), byte('I'), byte(']'),
                              262, 261, 2, 2}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
}

TEST(EncodeConversation, TokenThatSpansAMarkAndAnAnswerIsATarget) {
  const auto t = loaded(fallback_json());
  const ModelChat chat = ModelChat().mark("<s>: ").answer("ab").end_of_answer("</s>");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  EXPECT_EQ(encoded.ids, (Ids{1, 259, 3 + ':', 262, 261, 2, 2}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 0, 0, 1, 1, 1, 1}));
}

TEST(EncodeConversation, AnswersBetweenMarksWithoutSpecialTokensStayApart) {
  const auto t = loaded(fallback_json());
  const Document question{.text = "I: ", .parts = {{3, true, false}}};
  const Document chat{.text = "I: a\n", .parts = {{3, true, false}, {4, false, true}, {5, true, true}}};
  const EncodedDocument encoded = encode_document(*t, chat, true);
  EXPECT_EQ(encoded.ids, (Ids{1, 259, 3 + 'I', 3 + ':', 259, 262, 259, 3 + '\n', 2}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(encode_document(*t, question, false).ids, (Ids{1, 259, 3 + 'I', 3 + ':', 259, 2}))
      << "without its last token, the question must be the beginning of the conversation";
  EXPECT_EQ(ids_after_answer(*t, "\n"), (Ids{259, 3 + '\n'}));
}

TEST(EncodeConversation, EndOfAnAnswerHasTheIdsThatFollowAnAnswer) {
  const auto t = loaded(fallback_json());
  EXPECT_EQ(ids_after_answer(*t, " </s>"), (Ids{259, 2})) << "no space is inserted after an answer";
  EXPECT_EQ(ids_after_answer(*t, "</s>a"), (Ids{2}));
  EXPECT_EQ(ids_after_answer(*t, ""), Ids{});
}

// Returns the JSON of a tokenizer. Token 259 is "\n\n", token 261 is <|im_start|>, and token 262 is <|im_end|>. Token
// 260 is x followed by the first UTF-8 byte of e with acute accent.
nlohmann::json chat_json() {
  nlohmann::json json = byte_level_json();
  json["pre_tokenizer"]["use_regex"] = false;
  const std::string line = symbol_of('\n'), lead = symbol_of(0xc3);
  json["model"]["vocab"][line + line] = 259, json["model"]["vocab"]["x" + lead] = 260;
  json["model"]["merges"].push_back(line + " " + line), json["model"]["merges"].push_back("x " + lead);
  int id = 261;
  for (const char* text : {"<|im_start|>", "<|im_end|>"})
    json["added_tokens"].push_back({{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
  return json;
}

TEST(EncodeConversation, LineBreakTokenAcrossAMarkAndAnAnswerIsATarget) {
  const auto t = loaded(chat_json());
  const ModelChat chat = ModelChat().mark("<|im_start|>x\n").answer("\nab").end_of_answer("<|im_end|>").mark("\n");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  EXPECT_EQ(encoded.ids, (Ids{261, 'x', 259, 256, 262, '\n', 258}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 0, 1, 1, 1, 0, 1}));
}

TEST(EncodeConversation, EndsOfEmptyAndOtherAnswersAreTargets) {
  const auto t = loaded(chat_json());
  const ModelChat chat = ModelChat()
                             .mark("<|im_start|>")
                             .end_of_answer("<|im_end|>")
                             .mark("\n<|im_start|>")
                             .answer("ab")
                             .end_of_answer("<|im_end|>\n");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  EXPECT_EQ(encoded.ids, (Ids{261, 262, '\n', 261, 256, 262, '\n', 258}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 1, 0, 0, 1, 1, 0, 1})) << "the first special token ends an answer";
}

TEST(EncodeConversation, AllTokensOfAnAnswersCharactersAreTargets) {
  const auto t = loaded(chat_json());
  const ModelChat chat = ModelChat().mark("<|im_start|>x").answer("\xc3\xa9").end_of_answer("<|im_end|>");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  EXPECT_EQ(encoded.ids, (Ids{261, 260, 0xa9, 262, 258}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 1, 1, 1, 1}));
}

TEST(EncodeConversation, PartsAreConvertedOneByOneIfTheTokenizerChangesTheText) {
  nlohmann::json json = chat_json();
  json["normalizer"] = {{"type", "NFC"}};
  const auto t = loaded(json);
  const ModelChat chat = ModelChat().mark("<|im_start|>\n").answer("\ne\xcc\x81").end_of_answer("<|im_end|>");
  const EncodedDocument encoded = encode_document(*t, chat.document(), true);
  EXPECT_EQ(encoded.ids, (Ids{261, '\n', '\n', 0xc3, 0xa9, 262, 258}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(encode_document(*t, chat.document(), false).ids, encoded.ids)
      << "prompts and training texts give the same ids";
}

TEST(EncodeConversation, NoTokenJoinsAnAnswerWithTheNextTurn) {
  const auto t = loaded(byte_level_json());
  const Document raw{.text = "xabcab",
                     .parts = {{1, false, false}, {3, false, true}, {4, false, false}, {6, false, true}}};
  const EncodedDocument encoded = encode_document(*t, raw, true);
  EXPECT_EQ(encoded.ids, (Ids{'x', 256, 'c', 256, 258}));
  EXPECT_EQ(encoded.loss_mask, (Mask{0, 1, 0, 1, 1}));
}

TEST(EncodeConversation, AnswersThatAreNotLearnedHaveTheSameTokens) {
  const auto t = loaded(byte_level_json());
  Document document{.text = "A: abc\nb",
                    .parts = {{3, true, false}, {5, false, true}, {7, true, true}, {8, false, false}}};
  const EncodedDocument learned = encode_document(*t, document, true);
  for (DocumentPart& part : document.parts) part.learned = false;
  const EncodedDocument other = encode_document(*t, document, true);
  EXPECT_EQ(other.ids, learned.ids);
  EXPECT_NE(other.loss_mask, learned.loss_mask);
  EXPECT_EQ(other.loss_mask, Mask(learned.ids.size(), 0));
}

TEST(TokenSpans, LeaveOutInsertedSpacesAndStrippedWhiteSpace) {
  const std::string text = "<s>ab</s> a";
  const auto fallback = loaded(fallback_json());
  const Ids ids = fallback->encode_with_special(text);
  EXPECT_EQ(ids, (Ids{1, 262, 261, 2, 259, 262}));
  using Spans = std::vector<ByteRange>;
  EXPECT_EQ(token_spans(*fallback, ids, text), (Spans{{0, 3}, {3, 4}, {4, 5}, {5, 9}, {9, 10}, {9, 11}}));
  EXPECT_EQ(token_spans(*fallback, ids, "<s>ab</s> b"), std::nullopt);

  nlohmann::json json = byte_level_json();
  json["added_tokens"].push_back(
      {{"id", 259}, {"content", "<|a|>"}, {"special", true}, {"normalized", false}, {"rstrip", true}});
  const auto stripping = loaded(json);
  EXPECT_EQ(stripping->encode_with_special("<|a|>\n ab"), (Ids{259, 256}));
  EXPECT_EQ(token_spans(*stripping, Ids{259, 256}, "<|a|>\n ab"), (Spans{{0, 5}, {7, 9}}));
}

}  // namespace
}  // namespace hexad::data
