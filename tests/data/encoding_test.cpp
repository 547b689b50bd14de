// Conversion of documents to tokens on several threads.
#include "framework/data/encoding.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "framework/base/error.h"

namespace hexad::data {
namespace {

TEST(EncodeDocument, PlainTextIsLearnedWhole) {
  const auto tokenizer = make_byte_tokenizer();
  const EncodedDocument plain = encode_document(*tokenizer, {.text = "ab"}, false);
  EXPECT_EQ(plain.ids, (std::vector<int32_t>{'a', 'b', 256}));
  EXPECT_TRUE(plain.loss_mask.empty());
  EXPECT_EQ(plain.text_bytes, 2);
  EXPECT_EQ(encode_document(*tokenizer, {.text = "ab"}, true).loss_mask, (std::vector<uint8_t>{1, 1, 1}));
}

TEST(EncodeDocument, TheMaskCoversAnswersAndTheEndAfterALastAnswer) {
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

// Work that takes longer for some documents than for others.
EncodedDocument slow_copy(const Document& document) {
  EncodedDocument out;
  out.ids = {static_cast<int32_t>(std::stoi(document.text))};
  if (out.ids[0] % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  return out;
}

TEST(EncodingPool, KeepsTheOrderOfDocumentsForAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 5})
    for (const int64_t batch_bytes : {int64_t{1}, int64_t{10}, int64_t{100000}}) {
      std::vector<int32_t> found, wanted;
      EncodingPool pool(workers, batch_bytes, slow_copy,
                        [&](EncodedDocument&& document) { found.push_back(document.ids[0]); });
      for (int32_t i = 0; i < 300; ++i) {
        wanted.push_back(i);
        pool.add({.text = std::to_string(i)});
      }
      pool.finish();
      EXPECT_EQ(found, wanted);
    }
}

TEST(EncodingPool, PassesErrorsOfWorkersOn) {
  const auto fails = [](const Document& document) -> EncodedDocument {
    if (document.text == "50") base::fail(base::ExitCode::data, "document 50");
    return {};
  };
  int taken = 0;
  EncodingPool pool(3, 1, fails, [&](EncodedDocument&&) { ++taken; });
  const auto run = [&] {
    for (int i = 0; i < 100; ++i) pool.add({.text = std::to_string(i)});
    pool.finish();
  };
  EXPECT_THROW(run(), base::Error);
  EXPECT_EQ(taken, 50) << "all documents before the failing one arrive";
}

TEST(EncodingPool, EndsWithWorkThatNobodyTakes) {
  int taken = 0;
  {
    EncodingPool pool(2, 1, slow_copy, [&](EncodedDocument&&) { ++taken; });
    for (int i = 0; i < 4; ++i) pool.add({.text = std::to_string(i)});
  }
  EXPECT_EQ(taken, 0);
}

}  // namespace
}  // namespace hexad::data
