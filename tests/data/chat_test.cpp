// Records in JSON lines: paths of text keys, shapes of conversations, their text in each form, and the parts that are
// learned.
#include "framework/data/chat_form.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/data/conversation.h"
#include "framework/data/jsonl.h"
#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

struct Read {
  std::vector<Document> documents = {};
  std::vector<std::string> problems = {};
};

Read read(const std::string& lines, const RecordRules& rules) {
  Read result;
  RecordSplitter splitter(TextForm::json_lines, "a.jsonl", [&](std::string&& line, int64_t number) {
    read_records(
        TextForm::json_lines, "a.jsonl", rules, line, number,
        [&](Document&& document, int64_t) { result.documents.push_back(std::move(document)); },
        [&](const std::string& problem) { result.problems.push_back(problem); });
  });
  splitter.add(lines);
  splitter.finish();
  return result;
}

Document one(const std::string& line, std::string_view form) {
  const Read result = read(line, {.text_key = "text", .chat = conversation_form(form, "")});
  EXPECT_EQ(result.problems, std::vector<std::string>{});
  return result.documents.empty() ? Document{} : result.documents.front();
}

// Returns the text with angle quotes around its learned parts.
std::string with_answers(const Document& document) {
  std::string text;
  size_t begin = 0;
  for (const DocumentPart& part : document.parts) {
    const std::string piece = document.text.substr(begin, part.end - begin);
    text += part.answer && part.learned ? base::cat("«", piece, "»") : piece;
    begin = part.end;
  }
  EXPECT_EQ(begin, document.text.size());
  return text;
}

const std::string messages =
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},)"
    R"( {"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Bye"},)"
    R"( {"role": "assistant", "content": "Ciao"}]})";

TEST(ChatForm, OnlyAnswersAndTheirEndAreLearned) {
  EXPECT_EQ(with_answers(one(messages, "chatml")),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n«Hello»«<|im_end|>»\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n«Ciao»«<|im_end|>»\n");
  EXPECT_EQ(with_answers(one(messages, "llama3")),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n«Hello»«<|eot_id|>»"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n«Ciao»«<|eot_id|>»");
  EXPECT_EQ(with_answers(one(messages, "mistral")),
            "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]«Hello»«</s>»[INST]Bye[/INST]«Ciao»«</s>»");
  EXPECT_EQ(with_answers(one(messages, "plain")),
            "system: Be brief.\nuser: Hi\nassistant: «Hello»«\n»user: Bye\nassistant: «Ciao»«\n»");
}

TEST(ChatForm, TakesAllShapesOfObjects) {
  const std::string wanted = "user: Hi\nassistant: «Hello»«\n»";
  EXPECT_EQ(
      with_answers(
          one(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]})", "plain")),
      wanted);
  EXPECT_EQ(with_answers(one(R"({"instruction": "Hi", "input": "", "output": "Hello"})", "plain")), wanted);
  EXPECT_EQ(with_answers(one(R"({"instruction": "Hi", "output": "Hello"})", "plain")), wanted);
  EXPECT_EQ(with_answers(one(R"({"prompt": "Hi", "completion": "Hello"})", "plain")), wanted);
  EXPECT_EQ(with_answers(one(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]},)"
                             R"( {"role": "assistant", "content": "Hello"}]})",
                             "plain")),
            wanted);
  EXPECT_EQ(with_answers(one(R"({"system": "S", "instruction": "A", "input": "B", "output": "C"})", "plain")),
            "system: S\nuser: A\n\nB\nassistant: «C»«\n»");
  EXPECT_EQ(with_answers(one(R"({"system": "S", "prompt": "A", "completion": "C"})", "plain")),
            "system: S\nuser: A\nassistant: «C»«\n»");
  EXPECT_EQ(with_answers(one(R"({"system": null, "prompt": "A", "completion": "C"})", "plain")),
            "user: A\nassistant: «C»«\n»");
  EXPECT_EQ(with_answers(one(R"({"prompt": "2+2=", "completion": "4"})", "raw")), "2+2=«4»");
}

TEST(ChatForm, HistoryIsTheBeginningOfTheConversation) {
  EXPECT_EQ(with_answers(one(
                R"({"system": "S", "instruction": "A", "output": "B", "history": [["Q", "R"], ["T", "U"]]})", "plain")),
            "system: S\nuser: Q\nassistant: «R»«\n»user: T\nassistant: «U»«\n»user: A\nassistant: «B»«\n»");
  for (const char* none : {"[]", "null"})
    EXPECT_EQ(with_answers(one(base::cat(R"({"prompt": "A", "completion": "B", "history": )", none, "}"), "plain")),
              "user: A\nassistant: «B»«\n»");
}

TEST(ChatForm, TurnOfWeightZeroIsNotLearned) {
  const auto line = [](std::string_view first, std::string_view last) {
    return base::cat(
        R"({"messages": [{"role": "user", "content": "Hi", "weight": 0}, {"role": "assistant", "content": )",
        R"("Yo", "weight": )", first, R"(}, {"role": "user", "content": "Hi"}, {"role": "assistant", )",
        R"("content": "So", "weight": )", last, "}]}");
  };
  EXPECT_EQ(with_answers(one(line("0", "1"), "chatml")),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n"
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«So»«<|im_end|>»\n");
  const Document document = one(line("null", "0.0"), "plain");
  EXPECT_EQ(with_answers(document), "user: Hi\nassistant: «Yo»«\n»user: Hi\nassistant: So\n");
  EXPECT_FALSE(document.ends_with_answer());
}

TEST(ChatForm, OtherKeysOfTurnsAreRefusedUnlessTheyAreEmpty) {
  const auto problems = [](std::string_view member) {
    const std::string line = base::cat(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", )",
                                       R"("content": "Yo", )", member, "}]}");
    return read(line, {.text_key = "text", .chat = conversation_form("chatml", "")}).problems;
  };
  using Problems = std::vector<std::string>;
  for (const char* empty : {R"("id": null)", R"("annotations": [])", R"("name": "")", R"("audio": {})"})
    EXPECT_EQ(problems(empty), Problems{}) << empty;
  EXPECT_EQ(problems(R"("reasoning_content": "cats sit")"),
            Problems{"a.jsonl:1: turn 2 has the key \"reasoning_content\", which --chat-form chatml does not write; "
                     "remove it, or choose --chat-form model with a template that reads it"});
  const std::string turn = "a.jsonl:1: turn 2 of \"messages\": has ";
  EXPECT_EQ(problems(R"("id": 7)"),
            Problems{turn + "the key \"id\", which is not supported; supported: role, content, tool_calls, weight, and "
                            "(with --chat-form model) other keys with strings"});
  EXPECT_EQ(problems(R"("weight": 0.5)"), Problems{turn + "a \"weight\" that is 0.5, expected 0 (not learned) or 1"});
  EXPECT_EQ(problems(R"("weight": "0")"),
            Problems{turn + "a \"weight\" that is a string, expected 0 (not learned) or 1"});
}

TEST(ChatForm, ProblemsAreNamedByLine) {
  const auto problem = [](const std::string& line, std::string_view form) {
    const Read result = read(base::cat("\n", line), {.text_key = "text", .chat = conversation_form(form, "")});
    EXPECT_TRUE(result.documents.empty());
    return result.problems.empty() ? std::string() : result.problems.front();
  };
  EXPECT_EQ(problem(messages, "gemma"),
            "a.jsonl:2: turn 1 has role \"system\", expected user, assistant (--chat-form gemma)");
  expect_contains(problem(R"({"messages": [{"role": "critic", "content": "No"}]})", "chatml"),
                  "a.jsonl:2: turn 1 has role \"critic\", expected system, user, assistant, tool (--chat-form chatml)");
  expect_contains(problem(R"({"system": "S", "messages": [{"role": "critic", "content": "No"}]})", "chatml"),
                  "a.jsonl:2: turn 1 has role \"critic\"");
  expect_contains(problem(R"({"system": "S", "prompt": "A", "instruction": "B", "output": "C"})", "gemma"),
                  "a.jsonl:2: the key \"system\" has role \"system\", expected user, assistant");
  expect_contains(problem(R"({"system": 1, "prompt": "A", "completion": "C"})", "chatml"),
                  "a.jsonl:2: \"system\" is a number, expected a string");
  expect_contains(problem(R"({"messages": [{"role": "user", "content": "Hi"}]})", "chatml"),
                  "a.jsonl:2: has no answer to train on");
  expect_contains(problem(R"({"messages": [{"role": "user"}]})", "chatml"),
                  "turn 1 of \"messages\": has no key \"content\"");
  expect_contains(problem(R"({"messages": [{"role": "user", "content": null}]})", "chatml"),
                  "\"content\" is null, expected a string");
  expect_contains(problem(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})", "chatml"),
                  "has a part that is not text");
  expect_contains(
      problem(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "x": 1}]}]})", "chatml"),
      "\"content\" has a part that has the key \"x\", which is not supported; supported: type, text");
  expect_contains(problem(R"({"prompt": "A", "completion": "B", "history": "Q"})", "chatml"),
                  "a.jsonl:2: \"history\" is a string, expected a list of pairs");
  expect_contains(problem(R"({"instruction": "A", "output": "B", "history": [["Q", "R"], ["Q"]]})", "chatml"),
                  "a.jsonl:2: element 2 of \"history\" is not two strings, expected a list of pairs");
  expect_contains(problem(R"({"messages": [{"role": "assistant", "content": "Hi", "weight": 0}]})", "chatml"),
                  "has no answer to train on: expected an assistant turn with text or tool calls, and without "
                  "\"weight\": 0");
  expect_contains(problem(R"({"messages": "Hi"})", "chatml"), "\"messages\" is a string, expected a list of turns");
  expect_contains(problem(R"({"messages": ["Hi"]})", "chatml"),
                  "turn 1 of \"messages\": is a string, expected an object");
  expect_contains(problem(R"({"text": "Hi"})", "chatml"), "is not a conversation: expected \"messages\"");
  const std::string unclosed = problem(base::cat("{\"prompt\": \"", std::string(100'000, 'x')), "chatml");
  expect_contains(unclosed, "a.jsonl:2: is not JSON: column ");
  EXPECT_LT(unclosed.size(), 500u) << "long texts are cut";
  expect_contains(problem(R"({"prompt": "Hi"})", "chatml"), "has no key \"completion\"");
}

TEST(ChatForm, UnknownNameIsRefusedWithKnownNames) {
  expect_contains(message_of(ExitCode::usage, [] { chat_form("chatlm"); }),
                  "--chat-form chatlm is unknown; known forms: chatml, ");
}

TEST(ChatForm, EveryFormHasUsersAndAssistants) {
  ASSERT_GE(chat_forms().size(), 5u);
  for (const ChatForm& form : chat_forms()) {
    EXPECT_NE(form.find("user"), nullptr) << form.name;
    EXPECT_NE(form.find("assistant"), nullptr) << form.name;
    EXPECT_EQ(form.find("nobody"), nullptr) << form.name;
  }
}

TEST(TextKey, MayBeAPathOfKeys) {
  const auto texts = [](const std::string& key, const std::string& lines) {
    std::vector<std::string> found;
    for (const Document& document : read(lines, {.text_key = key}).documents) found.push_back(document.text);
    return found;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("a.b", R"({"a": {"b": "one"}})"), Texts{"one"});
  EXPECT_EQ(texts("a.b.c", R"({"a": {"b": {"c": "two"}}})"), Texts{"two"});
  EXPECT_EQ(texts("a.b", R"({"a.b": "three", "a": {"b": "four"}})"), Texts{"three"});
  EXPECT_EQ(texts("a.b.c", R"({"a.b": {"c": "five"}})"), Texts{"five"});
  const Read lacking = read("{\"a\": {\"b\": \"x\"}}\n{\"a\": {\"c\": \"y\"}}\n{\"a\": \"z\"}\n", {.text_key = "a.b"});
  ASSERT_EQ(lacking.problems.size(), 2u);
  expect_contains(lacking.problems[0], "a.jsonl:2: has no key \"a.b\" (--text-key)");
  expect_contains(lacking.problems[0], "keys with strings: a.c");
  expect_contains(lacking.problems[1], "a.jsonl:3: has no key \"a.b\" (--text-key)");
}

TEST(TextKey, ConversationWithoutChatFormIsRecognised) {
  expect_contains(read(messages, {}).problems.at(0), "for this conversation, pass --chat-form NAME");
}

TEST(RecordSplitter, LinesDoNotDependOnTheBlocks) {
  const std::string lines = "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\r\n{\"text\": \"three\"}";
  for (const size_t size : {size_t{1}, size_t{4}, size_t{1000}}) {
    std::vector<std::pair<std::string, int64_t>> found;
    RecordSplitter splitter(TextForm::json_lines, "a.jsonl",
                            [&](std::string&& line, int64_t number) { found.emplace_back(line, number); });
    for (size_t at = 0; at < lines.size(); at += size) splitter.add(std::string_view(lines).substr(at, size));
    splitter.finish();
    EXPECT_EQ(found, (std::vector<std::pair<std::string, int64_t>>{
                         {"{\"text\": \"one\"}", 1}, {"{\"text\": \"two\"}\r", 3}, {"{\"text\": \"three\"}", 4}}));
  }
}

}  // namespace
}  // namespace hexad::data
