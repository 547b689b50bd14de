// Prompts of `hexad generate`.
#include "tools/hexad/commands/prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "framework/data/chat_form.h"
#include "framework/data/chat_record.h"
#include "framework/data/encoding.h"
#include "framework/data/model_form.h"
#include "framework/data/named_form.h"
#include "tests/training/test_folder.h"
#include "tests/training/training.h"

namespace hexad::app {

using namespace base;
namespace {

// Returns the ids that `hexad prepare` writes for a whole conversation.
std::vector<int32_t> prepared(const data::Tokenizer& tokenizer, const data::ConversationForm& form,
                              const Prompt& prompt, const std::string& answer) {
  data::ChatJson turns = data::ChatJson::array();
  if (!prompt.system.empty()) turns.push_back({{"role", "system"}, {"content", prompt.system}});
  turns.push_back({{"role", "user"}, {"content", prompt.text}});
  turns.push_back({{"role", "assistant"}, {"content", answer}});
  data::Document document;
  EXPECT_EQ(data::write_conversation({{"messages", turns}}, form, document), "");
  return data::encode_document(tokenizer, document, false).ids;
}

TEST(ChatPrompt, IsTheBeginningOfAPreparedConversation) {
  const auto bytes = data::make_byte_tokenizer();
  for (const data::ChatForm& marks : data::chat_forms()) {
    const data::NamedForm form(marks);
    const Prompt prompt{.text = "why?", .system = marks.find("system") ? "be short" : ""};
    const std::vector<int32_t> ids = chat_prompt(*bytes, form, prompt, data::Packing::isolated);
    const std::vector<int32_t> whole = prepared(*bytes, form, prompt, "so");
    ASSERT_LT(ids.size(), whole.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), whole.begin())) << marks.name;
    std::vector<int32_t> rest = bytes->encode("so");
    const std::vector<int32_t> end = end_of_answer(*bytes, form);
    rest.insert(rest.end(), end.begin(), end.end());
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + std::ssize(ids))) << marks.name;
    const std::vector<int32_t> joined = chat_prompt(*bytes, form, prompt, data::Packing::joined);
    ASSERT_EQ(joined.size(), ids.size() + 1);
    EXPECT_EQ(joined.front(), bytes->end_of_document()) << "an end token precedes every text of joined documents";
  }
}

TEST(ChatPrompt, SystemTextNeedsItsRole) {
  const auto bytes = data::make_byte_tokenizer();
  const std::string message = tests::message_of(ExitCode::usage, [&] {
    chat_prompt(*bytes, data::NamedForm(data::chat_form("gemma")), {.text = "why?", .system = "be short"},
                data::Packing::isolated);
  });
  EXPECT_EQ(message,
            "--system needs a form with the role system; --chat-form gemma has user, assistant; choose another form, "
            "or remove --system");
}

TEST(ChatPrompt, SystemTextOfAFileIsRefusedWithItsPlace) {
  const auto bytes = data::make_byte_tokenizer();
  const Prompt prompt{.text = "why?", .system = "be short", .place = "a.jsonl:3", .own_system = true};
  const std::string message = tests::message_of(ExitCode::data, [&] {
    chat_prompt(*bytes, data::NamedForm(data::chat_form("gemma")), prompt, data::Packing::isolated);
  });
  EXPECT_EQ(message,
            "a.jsonl:3: a system text needs a form with the role system; --chat-form gemma has user, assistant; choose "
            "another form, or remove \"system\" from the line");
}

TEST(ChatPrompt, RefusalsOfAChatTemplateAreNamedWithThePlaceOfThePrompt) {
  const auto bytes = data::make_byte_tokenizer();
  const data::ModelForm form({.source = "{{ raise_exception('no') }}", .path = "t.jinja"});
  const std::string problem = "t.jinja:1: the template refuses the conversation: no";
  EXPECT_EQ(
      tests::message_of(ExitCode::usage, [&] { chat_prompt(*bytes, form, {.text = "why?"}, data::Packing::isolated); }),
      cat("the prompt cannot be written as a chat: ", problem));
  EXPECT_EQ(tests::message_of(
                ExitCode::data,
                [&] { chat_prompt(*bytes, form, {.text = "why?", .place = "a.jsonl:3"}, data::Packing::isolated); }),
            cat("a.jsonl:3: ", problem));
}

TEST(ReadPrompts, LinesOfAJsonFileAreObjects) {
  const tests::Scratch folder;
  std::ofstream(folder / "one.json") << R"({"prompt": "p"})";
  const auto prompts = read_prompts(folder / "one.json", "", false);
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_EQ(prompts[0].text, "p");
  std::ofstream(folder / "list.json") << R"([{"prompt": "p"}, {"prompt": "q"}])";
  const std::string message = tests::message_of(ExitCode::data, [&] { read_prompts(folder / "list.json", "", false); });
  EXPECT_NE(message.find("list.json:1: is an array, expected an object with a string under \"prompt\""), message.npos)
      << message;
}

TEST(ChatPrompt, SystemTextOfTheCommandLineIsRefusedForAPromptOfAFile) {
  const tests::Scratch folder;
  std::ofstream(folder / "a.txt") << "why?\n";
  const auto bytes = data::make_byte_tokenizer();
  const auto prompts = read_prompts(folder / "a.txt", "be short", true);
  ASSERT_EQ(prompts.size(), 1u);
  const std::string message = tests::message_of(ExitCode::usage, [&] {
    chat_prompt(*bytes, data::NamedForm(data::chat_form("gemma")), prompts[0], data::Packing::isolated);
  });
  EXPECT_TRUE(message.starts_with("--system needs a form with the role system")) << message;
}

TEST(ReadPrompts, ReadsLinesAndObjects) {
  const tests::Scratch folder;
  std::ofstream(folder / "a.txt") << "\xef\xbb\xbf"  // a byte order mark
                                  << "first\r\n\n  \nsecond one\n";
  const auto lines = read_prompts(folder / "a.txt", "be short", true);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].text, "first");
  EXPECT_EQ(lines[0].system, "be short");
  EXPECT_EQ(lines[1].text, "second one");
  EXPECT_TRUE(lines[1].place.ends_with("a.txt:4")) << lines[1].place;
  std::ofstream(folder / "a.jsonl") << R"({"prompt": "p", "system": "s"})"
                                    << "\n";
  const auto objects = read_prompts(folder / "a.jsonl", "", true);
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_EQ(objects[0].text, "p");
  EXPECT_EQ(objects[0].system, "s");
  const std::string message = tests::message_of(ExitCode::data, [&] { read_prompts(folder / "a.jsonl", "", false); });
  EXPECT_NE(message.find("a.jsonl:1: \"system\" needs --chat-form"), message.npos) << message;
}

}  // namespace
}  // namespace hexad::app
