// Data in chat templates, such as descriptions and calls of tools. The expected texts are the output of Jinja 3.1 with
// the settings of `transformers`.
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/data/json_value.h"
#include "tests/data/data_folder.h"
#include "tests/data/jinja/rendered.h"

namespace hexad::data::jinja {

using base::cat;
namespace {

constexpr std::string_view tool =
    R"({"name": "f", "on": true, "none": null, "list": [1, 2.5, -3, 1e16, 1e-7, 0.1, 100.0, "é<|im_end|>", [], {}],)"
    R"( "deep": {"b": 1, "a": {"c": [2]}}, "items": [7]})";

Value data_of(std::string_view json) {
  Value value;
  EXPECT_EQ(read_value(ChatJson::parse(json), value), "");
  return value;
}

struct Case {
  std::string_view source, text;
};

void expect_texts(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(rendered(c.source, data_of(tool)).bytes(), c.text) << c.source;
}

TEST(ChatTemplateData, JsonKeepsTheOrderOfKeysAndTheNumbersOfPython) {
  expect_texts({
      {"{{ data | tojson }}",
       R"({"name": "f", "on": true, "none": null, "list": [1, 2.5, -3, 1e+16, 1e-07, 0.1, 100.0, "é<|im_end|>", [], {}],)"
       R"( "deep": {"b": 1, "a": {"c": [2]}}, "items": [7]})"},
      {"{{ data.deep | tojson(indent=4) }}",
       "{\n    \"b\": 1,\n    \"a\": {\n        \"c\": [\n            2\n        ]\n    }\n}"},
      {"{{ data.list | tojson(indent=0, ensure_ascii=false) }}",
       "[\n1,\n2.5,\n-3,\n1e+16,\n1e-07,\n0.1,\n100.0,\n\"é<|im_end|>\",\n[],\n{}\n]"},
      {"{{ data.deep | tojson(separators=(',', ':')) }}|{{ data.deep | tojson(indent=none, separators=none) }}",
       R"({"b":1,"a":{"c":[2]}}|{"b": 1, "a": {"c": [2]}})"},
      {"{{ [data.deep, 1] | tojson(indent=1, separators=(';', '=')) }}",
       "[\n {\n  \"b\"=1;\n  \"a\"={\n   \"c\"=[\n    2\n   ]\n  }\n };\n 1\n]"},
  });
}

TEST(ChatTemplateData, ObjectsBehaveAsDictionariesOfPython) {
  expect_texts({
      {"{% for k, v in data.deep | items %}{{ k }}={{ v | tojson }};{% endfor %}|{% for k, v in data.deep.items() if k "
       "!= 'b' %}{{ k }}{{ loop.last }}{% endfor %}|{% for k in data.deep %}{{ k }}{% endfor %}|{{ data.deep.keys() | "
       "join(',') }}|{{ data.deep.a['c'][0] }}|{{ data['items'][0] }}|{{ data.deep.values() | list | length }}",
       "b=1;a={\"c\": [2]};|aTrue|ba|b,a|2|7|2"},
      {"{{ 'b' in data.deep }}{{ 'x' in data.deep }}{{ data.deep is mapping }}{{ data.deep is iterable }}{{ data.list "
       "is mapping }}{{ data.deep | length }}{{ data.get('on') }}{{ data.get('x', 3) }}{{ data.x is defined }}{{ "
       "data.deep == data.deep }}{{ data.none is none }}{{ data.deep.a == data.deep }}",
       "TrueFalseTrueTrueFalse2True3FalseTrueTrueFalse"},
      {"{{ data | items | first | last }}|{{ missing | items | list | length }}|{{ 'T' if data.list[9] else 'F' }}",
       "f|0|F"},
      {"{% set n = namespace(t=data.deep) %}{% set l = [data.deep] %}{{ n.t.b }}{{ l[0].b }}", "11"},
  });
}

TEST(ChatTemplateData, DecimalNumbersAreThoseOfPython) {
  expect_texts({
      {"{{ data.list[1] }} {{ data.list[3] }} {{ data.list[4] }} {{ data.list[6] }}", "2.5 1e+16 1e-07 100.0"},
      {"{{ data.list[6] == 100 }}{{ 100 == data.list[6] }}{{ data.list[1] == 2 }}{{ data.list[1] is number }}{{ 1 if "
       "data.list[1] else 2 }}",
       "TrueTrueFalseTrue1"},
  });
}

TEST(ChatTemplateData, TextsHaveCharactersAndListsAreJoined) {
  expect_texts({
      {"{{ 'héllo'[1:3] }}|{{ 'abc'[:-1] }}|{{ 'abc'[::-1] }}|{{ 'abc'[1] }}|{{ 'abc'[-1] }}|{{ 'abc'[5] }}|{{ ''[1:] "
       "}}",
       "él|ab|cba|b|c||"},
      {"{{ ['a', 1, 'b'] | join }}|{{ ['a', 'b'] | join(', ') }}|{{ [] | join(',') }}", "a1b|a, b|"},
  });
}

TEST(ChatTemplateData, AllOfItsJsonIsTextOfAMessage) {
  const auto from_messages = [](std::string_view source) {
    const Text text = rendered(source, data_of(R"({"<s>": ["</s>"], "n": 1})"));
    std::string found;
    for (size_t i = 0; i < text.size(); ++i) found += text.origin(i) == Origin::message ? text.bytes()[i] : '_';
    return found;
  };
  EXPECT_EQ(from_messages("a{{ data | tojson }}b"), R"(_{"<s>": ["</s>"], "n": 1}_)");
  EXPECT_EQ(from_messages("{{ [data] | tojson(separators=(',', ':')) }}"), R"(_{"<s>":["</s>"],"n":1}_)");
  EXPECT_EQ(from_messages("{{ data['<s>'] | tojson }}"), R"(["</s>"])");
  EXPECT_EQ(from_messages("{% for k, v in data | items %}{{ k }}|{{ v[0] if v is iterable else v }}|{% endfor %}"),
            "<s>_</s>_n___");
  EXPECT_EQ(from_messages("{{ (data | tojson)[1:4] }}-{{ data.keys() | join('+') }}"), "\"<s_<s>_n");
}

TEST(ChatTemplateData, SearchesForLongKeysAreCounted) {
  std::string json = "{";
  for (int i = 0; i < 500; ++i) json += cat(i == 0 ? "" : ", ", "\"", std::string(5000, 'k'), 100 + i, "\": 1");
  const Value data = data_of(json + "}");
  const std::string key = "{% set key = (data | items | last)[0] %}";
  EXPECT_EQ(rendered(key + "{{ data[key] }}{{ data.get(key) }}", data).bytes(), "11");
  expect_contains(
      message_of(ExitCode::data, [&] { rendered(key + "{% for other in data %}{{ data[key] }}{% endfor %}", data); }),
      "the template takes more than 1000000 steps");
}

TEST(ChatTemplateData, WrongUsesAreRefused) {
  const auto problem = [](std::string_view source) {
    return message_of(ExitCode::data, [&] { rendered(source, data_of(tool)); });
  };
  expect_contains(problem("{{ data.items }}"),
                  "t.jinja:1: '.items' of an object is a method, but is not called; write ['items'] for the member");
  expect_contains(problem("{{ data }}"), "writes an object, expected a text or a number; the filter tojson writes");
  expect_contains(problem("{{ data.pop('on') }}"),
                  "the method 'pop' is not supported; supported: get, items, keys, values");
  expect_contains(problem("{{ [1] | items }}"), "'items' is given a list, expected a message or an object");
  expect_contains(problem("{{ 'a' | join }}"), "'join' is given a text, expected a list");
  expect_contains(problem("{{ data | tojson(2) }}"),
                  "'tojson' has 1 argument, expected only keywords: ensure_ascii, indent, separators");
  expect_contains(problem("{{ data | tojson(sort_keys=true) }}"),
                  "the 'tojson' keyword 'sort_keys' is not supported; supported: ensure_ascii, indent, separators");
  expect_contains(problem("{{ data | tojson(ensure_ascii=true) }}"), "'ensure_ascii' of 'tojson' is true");
  expect_contains(problem("{{ data | tojson(indent=17) }}"),
                  "'indent' of 'tojson' is 17, expected none or a whole number from 0 to 16");
  expect_contains(problem("{{ data | tojson(separators=[',']) }}"),
                  "'separators' of 'tojson' is a list of 1 item, expected none or a list of two texts");
  expect_contains(problem("{{ data | tojson(separators=(data.name, ':')) }}"),
                  "'separators' of 'tojson' are text of a message, expected text of the template");
  expect_contains(problem("{{ data.list[1] + 1 }}"), "'+' is given a decimal number and a number");
  expect_contains(problem("{{ data.deep + data.deep }}"), "'+' is given an object and an object");
}

TEST(ReadValue, NumbersDepthAndKeysAreBounded) {
  const auto problem = [](const std::string& json) {
    Value value;
    return read_value(ChatJson::parse(json), value);
  };
  EXPECT_EQ(problem("9223372036854775807"), "");
  EXPECT_EQ(problem("-9223372036854775808"), "");
  EXPECT_EQ(problem("[9223372036854775808]"),
            "has the number 9223372036854775808, expected at most 9223372036854775807");
  expect_contains(problem("100000000000000000000"),
                  "has the number 1e+20, expected numbers above -2^63 and below 2^63");
  EXPECT_EQ(problem(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_EQ(problem(std::string(33, '[') + std::string(33, ']')),
            "has objects and lists nested more than 32 levels deep, the maximum");
  std::string keys = "{\"a\": 1";
  for (int i = 0; i < 1000; ++i) keys += cat(", \"", i, "\": 1");
  EXPECT_EQ(problem(keys + "}"), "has an object with 1001 keys, expected at most 1000");
}

}  // namespace
}  // namespace hexad::data::jinja
