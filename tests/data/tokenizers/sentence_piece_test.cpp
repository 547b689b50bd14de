#include "framework/data/tokenizers/sentence_piece_pairs.h"
#include "framework/data/tokenizers/sentence_piece_words.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/protobuf.h"
#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

using Ids = std::vector<int32_t>;

const std::string space = "\xe2\x96\x81";

// number() and message() return encoded fields of a protocol buffer message.
std::string number(int field, int value) {
  std::string text;
  for (const int n : {field * 8, value})
    text += n < 128 ? std::string(1, static_cast<char>(n))
                    : std::string{static_cast<char>(0x80 | (n & 0x7f)), static_cast<char>(n >> 7)};
  return text;
}
std::string message(int field, const std::string& contents) {
  std::string text = number(field, static_cast<int>(contents.size()));
  text[0] = static_cast<char>(text[0] | 2);  // wire type 2: a length, then the data
  return text + contents;
}

enum PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte_piece = 6 };

std::string piece(const std::string& text, float score, PieceType type = normal) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &score, 4);
  return message(1, message(1, text) + "\x15" + bytes + number(3, type));
}

// Returns a BPE model: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 the bytes, then U+2581, a, b, "U+2581 a", ab, and `more`.
std::string model(const std::string& more = "", int keeps_extra_spaces = 1) {
  std::string text = piece("<unk>", 0, unknown) + piece("<s>", 0, control) + piece("</s>", 0, control);
  for (int b = 0; b < 256; ++b) text += piece(fallback_name(static_cast<unsigned char>(b)), 0, byte_piece);
  text += piece(space, -10) + piece("a", -11) + piece("b", -12) + piece(space + "a", -1) + piece("ab", -2) + more;
  const std::string trainer = number(3, 2) + number(35, 1);  // model_type BPE, byte_fallback
  const std::string normalizer =
      message(1, "identity") + number(3, 1) + number(4, 1 - keeps_extra_spaces) + number(5, 1);
  return text + message(2, trainer) + message(3, normalizer);
}

TEST(SentencePiece, EncodesWithTheLibrary) {
  const ScratchFolder folder;
  const auto t = load_tokenizer(folder.write("tokenizer.model", model()));
  EXPECT_EQ(t->vocab_size(), 264);
  EXPECT_EQ(t->encode("a bab"), (Ids{262, 259, 261, 263}));
  EXPECT_EQ(t->encode("\xc3\xa9"), (Ids{259, 3 + 0xc3, 3 + 0xa9}));
  EXPECT_EQ(t->encode("</s>").front(), 259) << "control tokens in a text are text";
  EXPECT_EQ(t->beginning_of_document(), 1);
  EXPECT_EQ(t->end_of_document(), 2);
}

TEST(SentencePiece, ControlTokensAreFoundOnRequest) {
  const ScratchFolder folder;
  const auto t = load_tokenizer(folder.write("tokenizer.model", model()));
  EXPECT_EQ(t->encode_with_special("<s>a</s>"), (Ids{1, 262, 2}));
  ByteRanges trusted;
  trusted.add(0, 3);
  EXPECT_EQ(t->encode_with_special("<s></s>", trusted), (Ids{1, 259, 3 + '<', 3 + '/', 3 + 's', 3 + '>'}));
  EXPECT_EQ(t->decode_with_special(Ids{1, 262, 2}), "<s> a</s>");
  EXPECT_EQ(t->decode_with_special(Ids{262, 2}), "a</s>");
}

TEST(SentencePiece, RoundTripsValidText) {
  const ScratchFolder folder;
  const auto t = load_tokenizer(folder.write("tokenizer.model", model()));
  for (const std::string text :
       {"", "a", " a", "a ", "a  ", "  b  a \n", "\xd0\xbf\xd1\x80 \xe6\x96\x87 \xf0\x9f\x98\x80"})
    EXPECT_EQ(t->decode(t->encode(text)), text);
}

TEST(SentencePiece, WordsGiveTheIdsOfTheText) {
  const ScratchFolder folder;
  const std::string dependent = model(piece("x" + space, -3));  // no text here has this token
  EXPECT_TRUE(words_are_independent(model()));
  EXPECT_FALSE(words_are_independent(dependent));
  const auto by_words = load_tokenizer(folder.write("a.model", model()));
  const auto whole = load_tokenizer(folder.write("b.model", dependent));
  for (const std::string text :
       {"", " ", "  ", "a ", "a  ", " a", "  a ab a  aab ", "ab \xe2 a\xff a", "a\n a\t a", "a aaaa"})
    EXPECT_EQ(by_words->encode(text), whole->encode(text)) << text;
  const std::string written = "a" + space + " a " + space + "a";
  EXPECT_EQ(by_words->encode(written), whole->encode(written));
}

TEST(SentencePiece, WordsOfModelsThatChangeSpacesOrAreDamagedAreNotIndependent) {
  EXPECT_FALSE(words_are_independent(model("", 0)));
  EXPECT_FALSE(words_are_independent(""));
  EXPECT_FALSE(words_are_independent("\xff\xff"));
}

TEST(CharacterPairs, DivideWhereNoTokenHasBothCharacters) {
  const auto pairs = CharacterPairs::from_model(model());
  ASSERT_TRUE(pairs);
  const auto parts = [&](std::string_view word) {
    std::vector<std::string> all;
    pairs->for_each_part(word, [&](std::string_view part, bool is_first) {
      EXPECT_EQ(is_first, all.empty());
      all.emplace_back(part);
    });
    return all;
  };
  using Parts = std::vector<std::string>;
  EXPECT_EQ(parts(""), Parts{""});
  EXPECT_EQ(parts("a"), Parts{"a"});
  EXPECT_EQ(parts("abab"), (Parts{"ab", "ab"})) << "a token is ab, and none is ba";
  EXPECT_EQ(parts("aa\xc3\xa9"), (Parts{"a", "a", "\xc3\xa9"}));
  EXPECT_EQ(parts("  a a "), Parts{"  a a "}) << "spaces are not separated from their neighbours";
  EXPECT_EQ(parts("b\xc3"
                  "b\xff\xa9"
                  "b"),
            Parts{"b\xc3"
                  "b\xff\xa9"
                  "b"})
      << "bytes that are not UTF-8 are not separated from their neighbours";
}

TEST(CharacterPairs, ModelsWithTheSeparatorOrWithoutBytesAreNotDivided) {
  EXPECT_FALSE(CharacterPairs::from_model(model(piece("a\x01", -3))));
  EXPECT_FALSE(CharacterPairs::from_model(piece("ab", -3)));
  EXPECT_FALSE(
      CharacterPairs::from_model(model(piece("ab\xff"
                                             "cd",
                                             0, user_defined))));
  EXPECT_FALSE(CharacterPairs::from_model(""));
}

// The reference is the same model with one more token, x\x01. This token contains the separator, so the reference does
// not divide texts. No text here has this token.
TEST(CharacterPairs, PartsGiveTheIdsOfTheText) {
  const ScratchFolder folder;
  const std::string wen = "\xe6\x96\x87", ben = "\xe6\x9c\xac";  // characters of the texts
  const std::string plain = piece(wen, -4) + piece(wen + ben, -3) + piece(space + ben, -3);
  const std::string symbols =
      piece("ba", 0, user_defined) + piece("ab" + wen, -3, unused) + piece(ben + ben, 0, user_defined);
  std::string all_bytes;
  for (uint32_t b = 0; b < 65536; ++b) {
    all_bytes += static_cast<char>(b * 40503 >> 8);
    all_bytes += b % 7 ? "ab" : wen;
  }
  const std::vector<std::string> texts{"",
                                       "abab",
                                       "bbaa ab",
                                       " " + ben + wen + ben + wen,
                                       "a" + wen + ben + "b \xf0\x9f\x98\x80" + "ab",
                                       wen.substr(0, 2) + "a\xff" + "ba " + ben,
                                       "a\x01" + wen + " \x01\x01" + "a",
                                       "\x01",
                                       ben + "  " + wen + " \n" + wen,
                                       "ab" + wen + "ab" + wen + ben + ben + ben + "bab",
                                       "a" + space + ben + " " + space + space + "b",
                                       all_bytes};
  for (const std::string& more : {plain, plain + symbols}) {
    const auto by_parts = load_tokenizer(folder.write("a.model", model(more)));
    const auto whole = load_tokenizer(folder.write("b.model", model(more + piece("x\x01", -9))));
    for (const std::string& text : texts) EXPECT_EQ(by_parts->encode(text), whole->encode(text)) << text.substr(0, 40);
  }
}

TEST(ForEachWord, LeavesOutOneSpaceBetweenWords) {
  const auto words = [](std::string_view text) {
    std::vector<std::string> all;
    for_each_word(text, [&](std::string_view word) { all.emplace_back(word); });
    return all;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words(""), Words{""});
  EXPECT_EQ(words("a b  c"), (Words{"a", "b", " c"}));
  EXPECT_EQ(words(" a "), Words{" a "});
  EXPECT_EQ(words("a  "), (Words{"a", " "}));
  EXPECT_EQ(words("a" + space + " b"), Words{"a" + space + " b"});
}

TEST(Protobuf, ReadsFieldsAndStopsAtDamage) {
  const std::string whole = number(40, 300) + message(2, "abc");
  ProtobufReader reader(whole);
  const auto first = reader.next(), second = reader.next();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->number, 40u);
  EXPECT_EQ(first->value, 300u);
  EXPECT_EQ(second->number, 2u);
  EXPECT_EQ(second->bytes, "abc");
  EXPECT_FALSE(reader.next());
  for (const std::string& damaged :
       {whole.substr(4, 3), std::string(20, '\xff'), std::string("\x0b"), std::string("\x0a\x7f")})
    EXPECT_FALSE(ProtobufReader(damaged).next());
}

}  // namespace
}  // namespace hexad::data
