// Ids of the tokens that end a model's text.
#include "framework/data/end_ids.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

using Ids = std::vector<int32_t>;

// Returns a tokenizer whose documents end with 258. It also has the special token <|user|> (259), and the token
// <|observation|> (260), which is not special.
std::unique_ptr<Tokenizer> tokenizer_of_a_model() {
  const ScratchFolder folder;
  nlohmann::json json = byte_level_json();
  json["added_tokens"].push_back({{"id", 259}, {"content", "<|user|>"}, {"special", true}, {"normalized", false}});
  json["added_tokens"].push_back({{"id", 260}, {"content", "<|observation|>"}, {"special", false}});
  return load_tokenizer(folder.write("tokenizer.json", json.dump()));
}

TEST(EndIds, AllIdsOfBothFilesEndATextOnce) {
  const ScratchFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id": [258, 259]})");
  folder.write("config.json", R"({"eos_token_id": 260})");
  const EndIds found = end_ids(*tokenizer_of_a_model(), folder.path());
  EXPECT_EQ(found.ids, (Ids{258, 259, 260}));
  EXPECT_TRUE(found.warnings.empty());
}

TEST(EndIds, EndOfDocumentsIsTheOnlyIdWithoutAModel) {
  const ScratchFolder folder;
  EXPECT_EQ(end_ids(*tokenizer_of_a_model(), "").ids, Ids{258});
  EXPECT_EQ(end_ids(*tokenizer_of_a_model(), folder.path()).ids, Ids{258});
  folder.write("config.json", R"({"eos_token_id": 2})");
  const EndIds found = end_ids(*make_byte_tokenizer(), folder.path());
  EXPECT_EQ(found.ids, Ids{256}) << "config.json has the id 2 of another tokenizer";
  EXPECT_TRUE(found.warnings.empty());
}

TEST(EndIds, IdsOutsideOfTheVocabularyAndTextAreIgnoredWithAWarning) {
  const ScratchFolder folder;
  const std::string path = folder.write("generation_config.json", R"({"eos_token_id": [9999, -1, "a", 97, 259]})");
  const EndIds found = end_ids(*tokenizer_of_a_model(), folder.path());
  EXPECT_EQ(found.ids, (Ids{258, 259}));
  ASSERT_EQ(found.warnings.size(), 4u);
  const std::string ignored = path + ": ignored the eos_token_id ";
  EXPECT_EQ(found.warnings[0], ignored + "9999, expected an id of the tokenizer (a whole number from 0 to 260)");
  EXPECT_EQ(found.warnings[1], ignored + "-1, expected an id of the tokenizer (a whole number from 0 to 260)");
  EXPECT_EQ(found.warnings[2], ignored + "a string, expected an id of the tokenizer (a whole number from 0 to 260)");
  EXPECT_EQ(found.warnings[3],
            ignored + "97, which is the text 'a', expected a special token or a mark such as <|user|>");
}

TEST(EndIds, DamagedFilesAreIgnoredWithAWarning) {
  const ScratchFolder folder;
  const std::string path = folder.write("generation_config.json", "[");
  folder.write("config.json", R"({"eos_token_id": 259})");
  const EndIds found = end_ids(*tokenizer_of_a_model(), folder.path());
  EXPECT_EQ(found.ids, (Ids{258, 259}));
  ASSERT_EQ(found.warnings.size(), 1u);
  EXPECT_EQ(found.warnings[0], "eos_token_id is not known: " + path + ": is not JSON, expected a JSON object");
}

}  // namespace
}  // namespace hexad::data
