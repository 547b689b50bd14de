// Reading of chat templates from model folders.
#include "framework/data/chat_template.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "framework/data/prepare.h"
#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

TEST(ChatTemplate, IsReadFromTheConfigOrFromItsOwnFile) {
  using Tokens = std::vector<std::pair<std::string, std::string>>;
  const ScratchFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": "one", "bos_token": "<s>", "eos_token": {"content": "</s>", "special": true}})");
  const ChatTemplate one = read_chat_template(folder.path());
  EXPECT_EQ(one.source, "one");
  EXPECT_EQ(one.path, folder / "tokenizer_config.json: chat_template");
  EXPECT_EQ(one.tokens, (Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  folder.write("tokenizer.json", "{}");
  EXPECT_EQ(read_chat_template(folder / "tokenizer.json").source, "one") << "the folder of a file";

  folder.write("chat_template.jinja", "two");
  const ChatTemplate two = read_chat_template(folder.path());
  EXPECT_EQ(two.source, "two");
  EXPECT_EQ(two.path, folder / "chat_template.jinja");
  EXPECT_EQ(two.tokens, one.tokens);
  EXPECT_NE(one.digest(), two.digest());
  EXPECT_EQ(chat_template_files(folder.path()),
            (std::vector<std::string>{folder / "tokenizer_config.json", folder / "chat_template.jinja"}));

  folder.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": null, "pad_token": "</s>"})");
  const ChatTemplate other = read_chat_template(folder.path());
  EXPECT_EQ(other.tokens, (Tokens{{"bos_token", "<s>"}, {"pad_token", "</s>"}}));
  EXPECT_NE(other.digest(), two.digest());
}

TEST(ChatTemplate, DefaultTemplateOfAListIsUsed) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  const ChatTemplate both = read_chat_template(folder.path());
  EXPECT_EQ(both.source, "b");
  EXPECT_EQ(both.tool_source, "a");
  EXPECT_EQ(both.tool_path, folder / "tokenizer_config.json: chat_template, tool_use");
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "b"}]})");
  const ChatTemplate one = read_chat_template(folder.path());
  EXPECT_EQ(one.tool_source, "");
  EXPECT_NE(one.digest(), both.digest());
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "a"}]})");
  expect_contains(message_of(ExitCode::data, [&] { read_chat_template(folder.path()); }),
                  "tokenizer_config.json: 'chat_template' names only tool_use, expected a template named default");
  folder.write("chat_template.jinja", "c");
  EXPECT_EQ(read_chat_template(folder.path()).source, "c") << "the list of the config is not read";
}

TEST(ChatTemplate, ToolTemplateMayHaveItsOwnFile) {
  const ScratchFolder folder;
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]})");
  folder.write("chat_template.jinja", "c");
  EXPECT_EQ(read_chat_template(folder.path()).tool_source, "") << "files replace the config";
  const std::string path = folder.write("additional_chat_templates/tool_use.jinja", "d");
  const ChatTemplate found = read_chat_template(folder.path());
  EXPECT_EQ(found.source, "c");
  EXPECT_EQ(found.tool_source, "d");
  EXPECT_EQ(found.tool_path, path);
  EXPECT_EQ(chat_template_files(folder.path()).back(), path);
}

TEST(ChatTemplate, MissingOrDamagedTemplateIsRefused) {
  const ScratchFolder folder;
  const auto message = [&](const std::string& path) {
    return message_of(ExitCode::data, [&] { read_chat_template(path); });
  };
  expect_contains(message(folder / "nowhere"), "nowhere: there is no such file or folder");
  expect_contains(message(folder.path()),
                  ": has no chat template (chat_template.jinja, or chat_template in "
                  "tokenizer_config.json), which --chat-form model needs; choose another --chat-form");
  folder.write("tokenizer_config.json", R"({"chat_template": 1})");
  expect_contains(message(folder.path()), "'chat_template' is a number, expected a string");
  folder.write("tokenizer_config.json", "[]");
  expect_contains(message(folder.path()), "tokenizer_config.json: is an array, expected a JSON object");
  folder.write("tokenizer_config.json", "{}");
  folder.write("chat_template.jinja", "caf\xe9 {{ messages }}");
  expect_contains(message(folder.path()), "chat_template.jinja: is not text: byte 3 is 0xe9, which is not UTF-8");
}

TEST(ChatTemplate, NeedsTheTokenizerOfAModel) {
  const ScratchFolder folder;
  PrepareOptions options;
  options.inputs = {folder.write("a.jsonl", "{}")};
  options.output = folder / "out";
  options.chat_form = "model";
  for (const char* name : {"bpe", "bytes"}) {
    options.tokenizer = name;
    expect_contains(message_of(ExitCode::usage, [&] { prepare(options); }),
                    base::cat("--chat-form model needs the folder of a model (--tokenizer FOLDER), but --tokenizer is ",
                              name, "; give the folder, or choose another --chat-form"));
  }
}

}  // namespace
}  // namespace hexad::data
