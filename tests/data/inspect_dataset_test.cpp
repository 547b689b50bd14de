#include "framework/data/inspect_dataset.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "framework/data/prepare.h"
#include "tests/data/tokenizers/hand_made.h"

namespace hexad::data {
namespace {

TEST(InspectDataset, SamplesShowSpecialTokensByTheirTexts) {
  const ScratchFolder folder;
  nlohmann::json tokenizer = byte_level_json();
  for (const auto& [id, text] : {std::pair{259, "<|im_start|>"}, {260, "<|im_end|>"}})
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", true}, {"normalized", false}});
  PrepareOptions options;
  options.inputs = {
      folder.write("in/chat.jsonl",
                   R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})")};
  options.output = folder / "out";
  options.heldout = 0;
  options.tokenizer = folder.write("model/tokenizer.json", tokenizer.dump());
  options.chat_form = "chatml";
  prepare(options);

  const auto warn = [](const std::string& text) { ADD_FAILURE() << text; };
  const InspectedDataset dataset = open_dataset(options.output, DatasetCheck::structure, warn);
  const std::string begin = R"("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello<|im_end|>)";
  expect_contains(describe(dataset), begin);
  expect_contains(describe_json(dataset), begin);
  expect_contains(describe(dataset), R"(<|endoftext|>")");
}

TEST(InspectDataset, SummaryThatIsDamagedOrOfOtherPartsIsNamed) {
  const ScratchFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("in/a.txt", "some text")};
  options.output = folder / "out";
  options.heldout = 0;
  options.tokenizer = "bytes";
  prepare(options);
  std::vector<std::string> warnings;
  const auto open = [&](DatasetCheck check) {
    return open_dataset(options.output, check, [&](const std::string& text) { warnings.push_back(text); });
  };
  EXPECT_FALSE(describe(open(DatasetCheck::everything)).empty());
  EXPECT_TRUE(warnings.empty());

  const std::string path = folder / "out/summary.json";
  nlohmann::json summary = nlohmann::json::parse(read_file(path));
  summary["train"]["fingerprint"] = "0123";
  for (const auto& [text, problem] :
       {std::pair{summary.dump(), "describes another train.hxd, with digest 0123, but the digest of the file is "},
        {std::string("{"), "damaged: not a JSON object"},
        {std::string(), "damaged: not a JSON object"}}) {
    folder.write("out/summary.json", text);
    warnings.clear();
    EXPECT_FALSE(describe(open(DatasetCheck::structure)).empty());
    ASSERT_EQ(warnings.size(), 1u);
    expect_contains(warnings[0], base::cat(path, ": ", problem));
    expect_contains(message_of(ExitCode::data, [&] { open(DatasetCheck::everything); }),
                    base::cat(path, ": ", problem));
  }
}

TEST(InspectDataset, MissingFilesThatTheSummaryRecordsAreNamed) {
  const ScratchFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("in/a.txt", "some text"), folder.write("in/b.txt", "another text")};
  options.output = folder / "out";
  options.heldout = 0.5;
  options.tokenizer = "bytes";
  prepare(options);
  std::vector<std::string> warnings;
  const auto open = [&](DatasetCheck check) {
    return open_dataset(options.output, check, [&](const std::string& text) { warnings.push_back(text); });
  };
  for (const std::string name : {"heldout.hxd", "tokenizer.json"}) {
    const std::string path = folder / ("out/" + name), problem = "out/summary.json: records " + name;
    std::filesystem::rename(path, folder / "aside");
    warnings.clear();
    EXPECT_FALSE(describe(open(DatasetCheck::structure)).empty());
    ASSERT_EQ(warnings.size(), 1u);
    expect_contains(warnings[0], problem + ", which is missing; ");
    expect_contains(message_of(ExitCode::data, [&] { open(DatasetCheck::everything); }), problem);
    std::filesystem::rename(folder / "aside", path);
  }
  warnings.clear();
  EXPECT_EQ(open(DatasetCheck::everything).parts.size(), 2u);
  EXPECT_TRUE(warnings.empty());

  std::filesystem::remove(folder / "out/train.hxd");
  for (const DatasetCheck check : {DatasetCheck::structure, DatasetCheck::everything})
    expect_contains(message_of(ExitCode::data, [&] { open(check); }),
                    "out: has no train.hxd, which contains the tokens");
}

}  // namespace
}  // namespace hexad::data
