// Conversations with tools: their shapes in JSON, their texts, the parts that are learned, and refusals. The texts are
// written in named forms, and in templates like the templates of model families.
#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "framework/data/chat_record.h"
#include "framework/data/encoding.h"
#include "framework/data/jsonl.h"
#include "framework/data/model_form.h"
#include "framework/data/tokenizer.h"
#include "tests/data/data_folder.h"
#include "tests/data/tokenizers/hand_made.h"
#include "tests/data/tool_templates.h"

namespace hexad::data {

using base::cat;
using namespace tool_templates;
namespace {

const std::string tool =
    R"({"type": "function", "function": {"name": "rain", "description": "Rain of a city", "parameters": )"
    R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}})";

// Returns a line with a question, a call with these arguments, its result and an answer.
std::string line_with(std::string_view arguments) {
  return cat(R"({"tools": [)", tool, R"(], "messages": [{"role": "user", "content": "Rain in Oslo?"}, )",
             R"({"role": "assistant", "content": null, "tool_calls": [{"id": "abcdefghi", "type": "function", )",
             R"("function": {"name": "rain", "arguments": )", arguments, "}}]}, ",
             R"({"role": "tool", "tool_call_id": "abcdefghi", "name": "rain", "content": "{\"mm\": 2.5}"}, )",
             R"({"role": "assistant", "content": "Yes."}]})");
}

const std::string line = line_with(R"({"city": "Oslo"})");
const std::string line_with_text = line_with(R"("{\"city\": \"Oslo\"}")");

ModelForm form_of(std::string_view source) {
  return ModelForm(
      {.source = std::string(source), .path = "t.jinja", .tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}});
}

Document written(const std::string& json, const ConversationForm& form) {
  Document document;
  EXPECT_EQ(write_conversation(ChatJson::parse(json), form, document), "");
  return document;
}

// Returns the text with angle quotes around its answers. An answer includes its calls and its end.
std::string with_answers(const Document& document) {
  std::string text;
  size_t begin = 0;
  bool answer = false;
  for (const DocumentPart& part : document.parts) {
    if (part.answer != answer) text += part.answer ? "«" : "»";
    answer = part.answer;
    text += document.text.substr(begin, part.end - begin);
    begin = part.end;
  }
  EXPECT_EQ(begin, document.text.size());
  return answer ? text + "»" : text;
}

TEST(ToolChat, TemplatesOfFamiliesWriteToolsCallsAndResults) {
  EXPECT_EQ(with_answers(written(line, form_of(qwen))),
            cat("<|im_start|>system\n<tools>\n", tool,
                "\n</tools><|im_end|>\n<|im_start|>user\nRain in Oslo?<|im_end|>\n<|im_start|>assistant\n"
                "«<call>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\"}}\n</call><|im_end|>\n»"
                "<|im_start|>user\n<response>\n{\"mm\": 2.5}\n</response><|im_end|>\n<|im_start|>assistant\n"
                "«Yes.<|im_end|>\n»"));
  const std::string after_tools =
      "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nRain in Oslo?<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n"
      "«{\"name\": \"rain\", \"parameters\": {\"city\": \"Oslo\"}}<|eot_id|>»"
      "<|start_header_id|>ipython<|end_header_id|>\n\n\"{\\\"mm\\\": 2.5}\"<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n«Yes.<|eot_id|>»";
  const std::string with_indents = with_answers(written(line, form_of(llama)));
  EXPECT_TRUE(with_indents.ends_with(after_tools)) << with_indents;
  EXPECT_TRUE(with_indents.starts_with(
      "<s><|start_header_id|>system<|end_header_id|>\n\n{\n    \"type\": \"function\",\n    \"function\": {\n"
      "        \"name\": \"rain\",\n"))
      << with_indents;
  EXPECT_EQ(with_answers(written(line, form_of(mistral))),
            cat("<s>[AVAILABLE_TOOLS] [", tool,
                "][/AVAILABLE_TOOLS][INST] Rain in Oslo?[/INST]"
                "«[TOOL_CALLS] [{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\"}, \"id\": \"abcdefghi\"}]</s>»"
                "[TOOL_RESULTS] {\"content\": {\"mm\": 2.5}, \"call_id\": \"abcdefghi\"}[/TOOL_RESULTS]« Yes.</s>»"));
  EXPECT_EQ(with_answers(written(line_with_text, form_of(deepseek))),
            "<s><|User|>Rain in Oslo?<|Assistant|>"
            "«<|calls|><|call|>function<|sep|>rain\n{\"city\": \"Oslo\"}<|end_call|><|end_calls|></s>»"
            "<|outputs|>{\"mm\": 2.5}<|end_outputs|>«Yes.</s>»");
}

TEST(ToolChat, NamedFormsWriteToolsAndCallsAsJson) {
  const std::string call = R"({"name": "rain", "arguments": {"city": "Oslo"}})";
  for (const std::string& json : {line, line_with_text}) {
    EXPECT_EQ(with_answers(written(json, *conversation_form("plain", ""))),
              cat("system: tools:\n", tool, "\nuser: Rain in Oslo?\nassistant: «call: ", call,
                  "\n»tool: {\"mm\": 2.5}\nassistant: «Yes.\n»"));
    EXPECT_EQ(with_answers(written(json, *conversation_form("chatml", ""))),
              cat("<|im_start|>system\n<tools>\n", tool,
                  "\n</tools><|im_end|>\n<|im_start|>user\nRain in Oslo?<|im_end|>\n<|im_start|>assistant\n"
                  "«<tool_call>\n",
                  call, "\n</tool_call><|im_end|>»\n<|im_start|>tool\n{\"mm\": 2.5}<|im_end|>\n",
                  "<|im_start|>assistant\n«Yes.<|im_end|>»\n"));
    EXPECT_EQ(with_answers(written(json, *conversation_form("llama3", ""))),
              cat("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n", tool,
                  "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nRain in Oslo?<|eot_id|>"
                  "<|start_header_id|>assistant<|end_header_id|>\n\n"
                  "«{\"name\": \"rain\", \"parameters\": {\"city\": \"Oslo\"}}<|eot_id|>»"
                  "<|start_header_id|>ipython<|end_header_id|>\n\n{\"mm\": 2.5}<|eot_id|>"
                  "<|start_header_id|>assistant<|end_header_id|>\n\n«Yes.<|eot_id|>»"));
  }
}

TEST(ToolChat, NamedFormsWriteToolsAfterSystemTextAndCallsAfterText) {
  const std::string json =
      R"({"tools": [{"name": "f"}, {"name": "g"}], "messages": [{"role": "system", "content": "Be brief."},)"
      R"( {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Wait.", "tool_calls": [)"
      R"({"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g", "arguments": {"a": [1]}}}]}]})";
  EXPECT_EQ(with_answers(written(json, *conversation_form("plain", ""))),
            "system: Be brief.\n\ntools:\n{\"name\": \"f\"}\n{\"name\": \"g\"}\nuser: Hi\n"
            "assistant: «Wait.\ncall: {\"name\": \"f\", \"arguments\": {}}\ncall: {\"name\": \"g\", \"arguments\": "
            "{\"a\": [1]}}\n»");
}

// Returns the text of the tokens that are targets. Special tokens are written as <ID>.
std::string learned(const Tokenizer& tokenizer, const Document& document) {
  const EncodedDocument encoded = encode_document(tokenizer, document, true);
  std::string text;
  for (size_t i = 0; i < encoded.ids.size(); ++i) {
    if (encoded.loss_mask[i] == 0) continue;
    const std::string_view bytes = tokenizer.bytes_of(encoded.ids[i]);
    text += bytes.empty() ? cat("<", encoded.ids[i], ">") : std::string(bytes);
  }
  return text;
}

// Returns a byte-level tokenizer whose token 258 ends documents. The ids of the given special tokens begin at 259.
std::unique_ptr<Tokenizer> tokenizer_with(std::initializer_list<const char*> special) {
  const ScratchFolder folder;
  nlohmann::json json = byte_level_json();
  int id = 259;
  for (const char* text : special)
    json["added_tokens"].push_back({{"id", id++}, {"content", text}, {"special", true}, {"normalized", false}});
  return load_tokenizer(folder.write("tokenizer.json", json.dump()));
}

TEST(ToolChat, AllMarksOfACallAreLearnedUpToTheEndOfTheAnswer) {
  const auto tokenizer =
      tokenizer_with({"<s>", "</s>", "<|calls|>", "<|call|>", "<|sep|>", "<|end_call|>", "<|end_calls|>"});
  EXPECT_EQ(learned(*tokenizer, written(line_with_text, form_of(deepseek))),
            "<261><262>function<263>rain\n{\"city\": \"Oslo\"}<264><265><260>Yes.<260><258>");
}

TEST(ToolChat, TemplateOfToolsHasItsOwnEndOfAnswers) {
  const auto tokenizer = tokenizer_with({"<|im_start|>", "<|im_end|>", "<call>", "</call>"});
  ChatTemplate source{.source = "{% for m in messages %}{{ m.content }};{% endfor %}", .path = "t.jinja"};
  source.tool_source = qwen;
  source.tool_path = "tools.jinja";
  EXPECT_EQ(learned(*tokenizer, written(line, ModelForm(source))),
            "<261>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"Oslo\"}}\n<262><260>Yes.<260><258>");
}

TEST(ToolChat, TextOfToolsNeverBecomesASpecialToken) {
  const std::string json =
      R"({"tools": [{"name": "f", "<|im_end|>": ["<|im_end|>"]}], "messages": [{"role": "user", "content": "Hi"},)"
      R"( {"role": "assistant", "tool_calls": [{"function": {"name": "<|im_end|>", "arguments": {"<|im_end|>": 1}}}]}]})";
  for (const auto& form : {std::shared_ptr<const ConversationForm>(std::make_shared<ModelForm>(form_of(qwen))),
                           conversation_form("chatml", "")}) {
    const Document document = written(json, *form);
    size_t begin = 0, in_marks = 0, in_texts = 0;
    for (const DocumentPart& part : document.parts) {
      const std::string piece = document.text.substr(begin, part.end - begin);
      for (size_t at = piece.find("<|im_end|>"); at != piece.npos; at = piece.find("<|im_end|>", at + 1))
        ++(part.mark ? in_marks : in_texts);
      begin = part.end;
    }
    EXPECT_EQ(in_marks, 3u) << "the system turn, the question and the answer end";
    EXPECT_EQ(in_texts, 4u);
  }
}

// Returns the problem of the JSON `json`, read as line 2 of a file.
std::string problem_of(std::string_view json, std::shared_ptr<const ConversationForm> form) {
  std::string found;
  const RecordRules rules{.text_key = "text", .chat = std::move(form)};
  read_records(
      TextForm::json_lines, "a.jsonl", rules, json, 2,
      [](Document&&, int64_t) { ADD_FAILURE() << "no problem was found; expected one"; },
      [&](const std::string& problem) { found = problem; });
  return found;
}

// Returns a conversation whose answer has the list `calls`.
std::string with_calls(std::string_view calls) {
  return cat(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": )", calls, "}]}");
}

TEST(ToolChat, FormsWithoutMarksOfToolsRefuseThem) {
  const std::string call = with_calls(R"([{"function": {"name": "f", "arguments": {}}}])");
  for (const char* form : {"mistral", "gemma", "raw"}) {
    EXPECT_EQ(problem_of(call, conversation_form(form, "")),
              cat("a.jsonl:2: turn 2 calls tools (\"tool_calls\"), which --chat-form ", form,
                  " cannot express; forms with tools: plain, chatml, llama3, model"));
    EXPECT_EQ(
        problem_of(R"({"prompt": "Hi", "completion": "Yo", "tools": [{"name": "f"}]})", conversation_form(form, "")),
        cat("a.jsonl:2: lists tools (\"tools\"), which --chat-form ", form,
            " cannot express; forms with tools: plain, chatml, llama3, model"));
  }
}

TEST(ToolChat, WrongCallsAreNamedByLineTurnAndCall) {
  const auto expect_problem = [](std::string_view calls, std::string_view wanted) {
    EXPECT_EQ(problem_of(with_calls(calls), conversation_form("chatml", "")), cat("a.jsonl:2: turn 2", wanted));
  };
  const std::string in_call = " of \"messages\": has a problem in call 1 of \"tool_calls\": it ";
  expect_problem(R"({"name": "f"})", " of \"messages\": \"tool_calls\" is an object, expected a list of objects");
  expect_problem(R"(["f"])",
                 in_call +
                     "is a string, expected an object such as {\"type\": \"function\", \"function\": {\"name\": "
                     "\"...\", \"arguments\": {...}}}");
  expect_problem(R"([{"name": "f", "arguments": {}}])",
                 in_call +
                     "has no object under \"function\", expected an object such as {\"type\": \"function\", "
                     "\"function\": {\"name\": \"...\", \"arguments\": {...}}}");
  expect_problem(R"([{"index": 0, "function": {"name": "f", "arguments": {}}}])",
                 in_call + "has the key \"index\", which is not supported; supported: id, type, function");
  expect_problem(R"([{"function": {"name": "f", "arguments": {}, "output": "x"}}])",
                 in_call +
                     "has a \"function\" that has the key \"output\", which is not supported; supported: name, "
                     "arguments");
  expect_problem(R"([{"type": "search", "function": {"name": "f", "arguments": {}}}])",
                 in_call + "has the type \"search\", expected \"function\"");
  expect_problem(R"([{"type": [], "function": {"name": "f", "arguments": {}}}])",
                 in_call + "has a \"type\" that is an array, expected \"function\"");
  expect_problem(R"([{"id": 7, "function": {"name": "f", "arguments": {}}}])",
                 in_call + "has an \"id\" that is a number, expected a string");
  expect_problem(R"([{"function": {"name": "", "arguments": {}}}])",
                 in_call + "has no name under \"function\", expected a string under \"name\"");
  expect_problem(R"([{"function": {"name": "f", "arguments": [1]}}])",
                 in_call +
                     "has no arguments under \"function\", expected an object or a string with JSON under "
                     "\"arguments\"");
  expect_problem(R"([{"function": {"name": "f", "arguments": {"a": 18446744073709551615}}}])",
                 in_call + "has the number 18446744073709551615, expected at most 9223372036854775807");
  expect_problem(R"([{"function": {"name": "f", "arguments": "city: Oslo"}}])",
                 ": the arguments of the call of \"f\" are city: Oslo, expected a JSON object");
  EXPECT_EQ(
      problem_of(R"({"messages": [{"role": "user", "content": "Hi", "tool_calls": [{"function": )"
                 R"({"name": "f", "arguments": {}}}]}]})",
                 conversation_form("chatml", "")),
      "a.jsonl:2: turn 1 of \"messages\": calls tools (\"tool_calls\"), but has role \"user\", expected assistant");
  expect_contains(problem_of(R"({"messages": [{"role": "assistant", "content": "a", "function_call": {"name": "f"}}]})",
                             conversation_form("chatml", "")),
                  "calls a tool under \"function_call\", which is not supported; write \"tool_calls\": [{");
  expect_contains(problem_of(R"({"messages": [{"role": "tool", "content": "a", "tool_call_id": 7}]})",
                             conversation_form("chatml", "")),
                  "a.jsonl:2: turn 1 of \"messages\": \"tool_call_id\" is a number, expected a string");
}

TEST(ToolChat, DeeplyNestedJsonIsRefused) {
  constexpr size_t depth = 200'000;
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  const auto problem = [](const std::string& call) {
    return problem_of(with_calls(call), conversation_form("chatml", ""));
  };
  expect_contains(problem(cat(R"([{"function": {"name": "f", "arguments": {"a": )", deep, "}}}]")),
                  "it has objects and lists nested more than 32 levels deep, the maximum");
  expect_contains(problem(cat(R"([{"type": )", deep, R"(, "function": {"name": "f", "arguments": {}}}])")),
                  "it has a \"type\" that is an array");
  expect_contains(problem(cat(R"([{"x": )", deep, R"(, "function": {"name": "f", "arguments": {}}}])")),
                  "it has the key \"x\", which is not supported");
  expect_contains(problem_of(cat(R"({"prompt": "Hi", "completion": "Yo", "tools": [{"name": "f", "x": )", deep, "}]}"),
                             conversation_form("chatml", "")),
                  "it has objects and lists nested more than 32 levels deep, the maximum");
  expect_contains(problem_of(cat(R"({"messages": [{"role": "user", "content": [{"text": "a", "type": )", deep, "}]}]}"),
                             conversation_form("chatml", "")),
                  "\"content\" has a part that is not text");
}

TEST(ToolChat, TooLongJsonOfACallIsRefused) {
  const std::string text(size_t{17} << 20, 'x');
  EXPECT_EQ(problem_of(line_with(cat(R"({"city": ")", text, "\"}")), conversation_form("chatml", "")),
            "a.jsonl:2: the JSON of a tool or call is too long, expected at most 16777216 bytes and fewer than 1000000 "
            "values and keys");
}

TEST(ToolChat, WrongToolsAreNamedByLine) {
  const auto problem = [](std::string_view tools) {
    return problem_of(cat(R"({"prompt": "Hi", "completion": "Yo", "tools": )", tools, "}"),
                      conversation_form("chatml", ""));
  };
  EXPECT_EQ(problem(R"("[]")"), "a.jsonl:2: \"tools\" is a string, expected a list of objects");
  expect_contains(problem(R"([{"name": "f"}, {"type": "function"}])"),
                  "a.jsonl:2: has a problem in tool 2 of \"tools\": it has no name, expected an object such as");
  expect_contains(problem(R"([{"type": "web_search", "name": "f"}])"), "it has the type \"web_search\", expected");
  expect_contains(problem(R"([{"function": "f"}])"), "it has a \"function\" that is a string, expected an object");
  expect_contains(problem_of(R"({"prompt": "Hi", "completion": "Yo", "functions": [{"name": "f"}]})",
                             conversation_form("chatml", "")),
                  "a.jsonl:2: lists tools under \"functions\", which is not supported; write \"tools\": [{");
}

TEST(ToolChat, EmptyValuesAndNullCountAsNoTools) {
  for (const char* none : {"null", "[]", "{}", R"("")"}) {
    const std::string json =
        cat(R"({"tools": )", none, R"(, "functions": )", none, R"(, "messages": [{"role": "user", "content": "Hi"}, )",
            R"({"role": "assistant", "content": "Yo", "function_call": )", none, R"(, "tool_calls": )", none, "}]}");
    EXPECT_EQ(with_answers(written(json, form_of(llama))),
              "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
              "<|start_header_id|>assistant<|end_header_id|>\n\n«Yo<|eot_id|>»");
    EXPECT_EQ(with_answers(written(json, *conversation_form("gemma", ""))),
              "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n«Yo<end_of_turn>»\n");
    const std::string result = cat(R"({"messages": [{"role": "tool", "content": "a", "name": )", none,
                                   R"(, "tool_call_id": )", none, R"(}, {"role": "assistant", "content": "Yo"}]})");
    EXPECT_EQ(with_answers(written(result, *conversation_form("plain", ""))), "tool: a\nassistant: «Yo\n»");
  }
}

TEST(ToolChat, TemplateOfToolsWritesConversationsThatListTools) {
  ChatTemplate source{.source = "{% for m in messages %}{{ m.content }};{% endfor %}", .path = "t.jinja"};
  source.tool_source = "{{ tools[0].name }}:{% for m in messages %}{{ m.content }},{% endfor %}";
  source.tool_path = "tools.jinja";
  const std::string plain = R"({"prompt": "Hi", "completion": "Yo"})";
  const std::string with_tools = R"({"prompt": "Hi", "completion": "Yo", "tools": [{"name": "f"}]})";
  EXPECT_EQ(written(plain, ModelForm(source)).text, "Hi;Yo;");
  EXPECT_EQ(written(with_tools, ModelForm(source)).text, "f:Hi,Yo,");
  source.tool_source = "\n{% include 'a' %}";
  EXPECT_EQ(written(plain, ModelForm(source)).text, "Hi;Yo;") << "the template for tools is not needed";
  expect_contains(problem_of(with_tools, std::make_shared<ModelForm>(source)),
                  "a.jsonl:2: tools.jinja:2: the tag {% include %} is not supported");
}

TEST(ToolChat, RefusalsOfATemplateAreNamedByLine) {
  const auto form = std::make_shared<ModelForm>(form_of(llama));
  const std::string two =
      with_calls(R"([{"function": {"name": "f", "arguments": {}}}, {"function": {"name": "g", "arguments": {}}}])");
  const std::string found = problem_of(two, form);
  EXPECT_TRUE(found.starts_with("a.jsonl:2: t.jinja:")) << found;
  expect_contains(found, "the template refuses the conversation: one call only");
  // The deepseek template concatenates the arguments with other texts.
  expect_contains(problem_of(line, std::make_shared<ModelForm>(form_of(deepseek))),
                  "'+' is given a text and an object");
}

TEST(ToolChat, CallsThatATemplateLeavesOutAreRefusedByLine) {
  const std::string call = R"([{"type": "function", "function": {"name": "f", "arguments": "{}"}}])";
  const std::string start = "a.jsonl:2: turn 2 calls tools (\"tool_calls\"), but t.jinja writes the same text without";
  const auto ignores = std::make_shared<ModelForm>(form_of("{% for m in messages %}{{ m.content }};{% endfor %}"));
  const std::string found = problem_of(with_calls(call), ignores);
  EXPECT_TRUE(found.starts_with(start)) << found;
  EXPECT_TRUE(found.ends_with("; choose a named --chat-form")) << found;
  // The deepseek template writes either the text or the calls.
  const auto either = std::make_shared<ModelForm>(form_of(deepseek));
  for (const char* text : {"", "Wait."}) {
    const std::string both =
        problem_of(cat(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", )", R"("content": ")",
                       text, R"(", "tool_calls": )", call, "}]}"),
                   either);
    EXPECT_TRUE(both.starts_with(start)) << both;
    expect_contains(both, "or write calls in a turn without \"content\"");
  }
  EXPECT_EQ(with_answers(written(with_calls(call), *either)),
            "<s><|User|>Hi<|Assistant|>«<|calls|><|call|>function<|sep|>f\n{}<|end_call|><|end_calls|></s>»");
}

}  // namespace
}  // namespace hexad::data
