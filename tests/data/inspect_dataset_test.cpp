#include "framework/data/inspect_dataset.h"

#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace hexad::data
