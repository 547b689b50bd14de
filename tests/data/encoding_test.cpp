// Conversion of documents to token ids.
#include "framework/data/encoding.h"

#include <gtest/gtest.h>

#include <string>

#include "framework/base/error.h"

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

// Byte tokenizer with one special token "<s>", which begins documents.
class SpecialTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override { return bytes_->encode(text); }
  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    return text == "<s>" ? std::vector<int32_t>{258} : encode(text);
  }
  int32_t vocab_size() const override { return 261; }
  std::string_view bytes_of(int32_t id) const override { return bytes_->bytes_of(id); }
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
    ADD_FAILURE() << "no Error was thrown";
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

}  // namespace
}  // namespace hexad::data
