// Texts that chat templates render: white space, literals, operators, loops, filters and macros. The expected texts are
// the output of Jinja 3.1 with the settings of `transformers`.
#include "framework/data/jinja/template.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/data/jinja/rendered.h"

namespace hexad::data::jinja {
namespace {

struct Case {
  std::string_view source, text;
};

void expect_texts(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(rendered(c.source).bytes(), c.text) << c.source;
}

TEST(ChatTemplateText, WhiteSpaceAroundMarksIsRemovedAsInTransformers) {
  expect_texts({
      {"a\n", "a"},
      {"a\n\n", "a\n"},
      {"a\r\nb\r\n", "a\nb"},
      {"{% if true %}\na\n{% endif %}\nb", "a\nb"},
      {"a\n  {% if true %}  \nb{% endif %}", "a\n  \nb"},
      {"a  {% if true %}b{% endif %}  c", "a  b  c"},
      {"a \n {%- if true -%} \n b \n {%- endif %} c", "ab c"},
      {"  {%+ if true %}b{% endif +%}\nc", "  b\nc"},
      {"a\n  {{ 1 }}\n b", "a\n  1\n b"},
      {"a\n {{- 1 -}} \n b", "a1b"},
      {"a\n  {# c #}\nb", "a\nb"},
      {"a {#- c -#} b", "ab"},
      {"{% if true %}\n  {% if true %}\n  x\n  {% endif %}\n{% endif %}\ny", "  x\ny"},
      {"\xc2\xa0 {{- 1 }}", "1"},
      {"{% if true -%}\n  {% if true %}x{% endif %}{% endif %}", "x"},
      {"a{# {{ b }} {% c %} #}d", "ad"},
      {"{{ '}}' }}{{ \"%}\" }}", "}}%}"},
      {" {% if true %}a{% endif %}", "a"},
  });
}

TEST(ChatTemplateText, LiteralsAreThoseOfPython) {
  expect_texts({
      {"{{ 12 }}|{{ true }}|{{ False }}|{{ none }}|{{ missing }}", "12|True|False|None|"},
      {"{{ 'a\\n\\t\\\\\\'\\x41\\u00e9\\q' }}", "a\n\t\\'A\xc3\xa9\\q"},
      {"{{ 'a' \"b\" }}", "ab"},
      {"{{ ['a', 'b'] | length }}{{ ('a', 'b',) | length }}{{ () | length }}{{ [] | length }}{{ ('a') }}", "2200a"},
  });
}

TEST(ChatTemplateText, OperatorsBehaveAsInPython) {
  expect_texts({
      {"{{ 1 + 2 * 3 - 4 }}|{{ (1 + 2) * 3 }}|{{ 7 // 2 }}|{{ 7 % 3 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ -3 "
       "}}|{{ 5 // -1 }}|{{ 5 % -1 }}|{{ +4 }}",
       "3|9|3|1|-4|2|-2|-3|-5|0|4"},
      {"{{ 'a' + 'b' ~ 1 ~ true ~ none ~ missing }}|{{ 2 ~ 3 * 4 }}|{{ -1 ~ 2 }}", "ab1TrueNone|212|-12"},
      {"{{ 1 < 2 }}|{{ 2 <= 2 }}|{{ 3 > 4 }}|{{ 4 >= 4 }}|{{ 1 < 2 < 3 }}|{{ 1 < 3 < 2 }}|{{ 1 == true }}|{{ 'a' != "
       "'b' }}",
       "True|True|False|True|True|False|True|True"},
      {"{{ 'a' in 'cat' }}|{{ 'x' not in 'cat' }}|{{ 'b' in ['a', 'b'] }}|{{ 'role' in messages[0] }}|{{ 'tool_calls' "
       "in messages[0] }}|{{ 'a' in missing }}",
       "True|True|True|True|False|False"},
      {"{{ true and 'a' }}|{{ '' or 'b' }}|{{ none or 0 }}|{{ not 'a' }}|{{ not a is defined }}|{{ 1 and 0 or 2 }}",
       "a|b|0|False|True|2"},
      {"{{ 'a' if true else 'b' }}|{{ 'a' if false else 'b' }}|{{ 'a' if false }}", "a|b|"},
      {"{{ ['a'] + ['b'] == ['a', 'b'] }}|{{ messages[0] == messages[0] }}|{{ messages[0] == messages[1] }}|{{ missing "
       "== gone }}|{{ none == false }}|{{ [1] == ['1'] }}",
       "True|True|False|True|False|False"},
  });
}

TEST(ChatTemplateText, ElementsAndSlicesOfMessagesAreFound) {
  expect_texts({
      {"{{ messages[0].role }}|{{ messages[-1]['content'] }}|{{ messages[9] }}|{{ messages[0].name }}|{{ messages | "
       "length }}|{{ messages[0] | count }}",
       "system|Yo|||3|2"},
      {"{% for m in messages[1:] %}{{ m.role }},{% endfor %}|{% for m in messages[::-1] %}{{ m.role }},{% endfor %}|{% "
       "for m in messages[:-1] %}{{ m.role }},{% endfor %}|{% for m in messages[-2:9] %}{{ m.role }},{% endfor %}|{% "
       "for m in messages[5::-2] %}{{ m.role }},{% endfor %}",
       "user,assistant,|assistant,user,system,|system,user,|user,assistant,|assistant,system,"},
      {"{{ messages | first | tojson }}|{{ (messages | last).role }}|{{ messages[0].get('name', 'x') }}|{{ "
       "messages[0].get('role') }}|{{ messages[0].get('name') }}",
       "{\"role\": \"system\", \"content\": \" Be brief. \"}|assistant|x|system|None"},
      {"{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools }}", "<s></s>FalseNone"},
  });
}

TEST(ChatTemplateText, LoopsHaveTheirOwnVariables) {
  expect_texts({
      {"{% for m in messages %}{{ loop.index0 }}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ "
       "m.role }}\n{% endfor %}",
       "01TrueFalse3system\n12FalseFalse3user\n23FalseTrue3assistant\n"},
      {"{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }} {% else %}none{% endfor %}",
       "1user 2assistant "},
      {"{% for m in [] %}a{% else %}none{% endfor %}", "none"},
      {"{% for m in missing %}a{% endfor %}", ""},
      {"{% for m in [] %}{% else %}{% set a = 1 %}{% endfor %}[{{ a }}]", "[]"},
      {"{% set a = 1 %}{% for m in messages %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}", "2221"},
      {"{% set ns = namespace(n=0, last='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set ns.last = m.role "
       "%}{% endfor %}{{ ns.n }}{{ ns.last }}{{ ns.other }}",
       "3assistant"},
      {"{% if true %}{% set a = 'x' %}{% endif %}{{ a }}", "x"},
      {"{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "1234"},
      {"{% for m in messages %}{% for n in messages %}{{ loop.index }}{% endfor %}{{ loop.index }}|{% endfor %}",
       "1231|1232|1233|"},
      {"{% for m in messages %}{% if m.role == 'user' %}U{% elif m.role == 'assistant' %}A{% else %}S{% endif %}{% "
       "endfor %}",
       "SUA"},
  });
}

TEST(ChatTemplateText, FiltersAndMethodsBehaveAsInPython) {
  expect_texts({
      {"[{{ messages[0].content | trim }}][{{ '\xe3\x80\x80"
       "a\xc2\xa0' | trim }}][{{ 'xxaxx' | trim('x') }}]",
       "[Be brief.][a][a]"},
      {"{{ 'h\xc3\xa9' | length }}|{{ missing | length }}", "2|0"},
      {"{{ missing | default('d') }}|{{ '' | default('d') }}", "d|"},
      {"{{ ['a\"\\n\xc3\xa9\\x01\\\\', 1, true, none, []] | tojson }}",
       "[\"a\\\"\\n\xc3\xa9\\u0001\\\\\", 1, true, null, []]"},
      {"[{{ ' a '.strip() }}][{{ ' a '.lstrip() }}][{{ ' a '.rstrip() }}][{{ 'abcab'.strip('ba') }}][{{ "
       "'\\n\\na'.lstrip('\\n') }}][{{ '\xc3\xa9"
       "a'.strip('\xc3\xa9') }}]",
       "[a][a ][ a][c][a][a]"},
      {"{{ 'a</t>b</t>c'.split('</t>')[-1] }}|{{ 'abc'.split('x') | length }}|{{ 'a,b,c'.split(',', 1)[1] }}|{{ "
       "',a'.split(',')[0] }}|{{ 'a'.startswith('a') }}|{{ 'abc'.endswith('x') }}|{{ 'abc'.startswith(('x', 'ab')) "
       "}}|{{ ''.split(',') | length }}",
       "c|1|b,c||True|False|True|1"},
  });
}

TEST(ChatTemplateText, MacrosSeeParametersAndVariablesOutsideOfLoops) {
  expect_texts({
      {"{% macro f(a, b='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{% set c = 1 %}{{ f('h') }}{{ f('h', b=2) }}{{ "
       "f(b='z') }}{{ f(a=1) | length }}",
       "[hx1][h21][z1]5"},
      {"{% macro text(m) -%}\n  {%- if m.content is string %}{{- m.content | trim }}{% endif -%}\n{%- endmacro %}{% "
       "for m in messages %}{% set x = text(m) %}{{ x }},{{ loop.index }};{% endfor %}",
       "Be brief.,1;Hi,2;Yo,3;"},
      {"{% if true %}{% macro f() %}{{ c }}{% endmacro %}{% endif %}{% set c = 1 %}{% for m in messages %}{% set c = 7 "
       "%}{{ f() }}{% endfor %}",
       "111"},
      {"{% macro f() %}{% set c = 2 %}{{ c }}{% endmacro %}{% set c = 1 %}{{ f() }}{{ c }}", "21"},
      {"{% macro g() %}g{% endmacro %}{% macro f() %}f{{ g() }}{% endmacro %}{{ f() + '!' }}", "fg!"},
      {"{% set ns = namespace(n=1) %}{% macro f() %}{% set ns.n = 5 %}{% endmacro %}{{ f() }}{{ ns.n }}", "5"},
  });
}

TEST(ChatTemplateText, MessagesAreSelectedByAMember) {
  expect_texts({
      {"{{ messages | selectattr('role', 'equalto', 'user') | list | length }}|{{ (messages | rejectattr('role', '==', "
       "'user') | list)[1].role }}|{{ messages | selectattr('name') | list | length }}|{{ messages | "
       "selectattr('role') | list | length }}|{{ 1 | string ~ true | string }}",
       "1|assistant|0|3|1True"},
      // Python returns a generator, which is always true.
      {"{{ 'T' if messages | selectattr('role', '==', 'tool') else 'F' }}|{{ 'T' if messages | selectattr('role', "
       "'==', "
       "'tool') | list else 'F' }}|{{ messages | selectattr('role') is iterable }}{{ messages | selectattr('role') is "
       "sequence }}",
       "T|F|TrueFalse"},
  });
}

TEST(ChatTemplateText, TestsDistinguishKindsOfValues) {
  expect_texts({
      {"{{ messages is defined }}{{ missing is defined }}{{ missing is undefined }}{{ messages is not defined }}|{{ "
       "none is none }}{{ 'a' is string }}{{ 1 is string }}|{{ messages[0] is mapping }}{{ messages is mapping }}|{{ "
       "messages is iterable }}{{ 1 is iterable }}{{ 'a' is iterable }}{{ messages is sequence }}{{ 1 is sequence "
       "}}|{{ 1 is number }}{{ 'a' is number }}|{{ true is boolean }}{{ 1 is boolean }}|{{ true is true }}{{ 1 is true "
       "}}{{ false is false }}|{{ not messages[0].content is string }}",
       "TrueFalseTrueFalse|TrueTrueFalse|TrueFalse|TrueFalseTrueTrueFalse|TrueFalse|TrueFalse|TrueFalseTrue|False"},
  });
}

TEST(ChatTemplateText, GenerationTagsOnlyLimitVariables) {
  expect_texts({
      {"a{% generation %}{{ messages[1].content }}{% endgeneration %}b", "aHib"},
      {"{% for m in messages %}{% generation %}{% set a = m.role %}{{ loop.index }}{{ a }}{% endgeneration %}[{{ a "
       "}}]{% endfor %}",
       "1system[]2user[]3assistant[]"},
  });
}

}  // namespace
}  // namespace hexad::data::jinja
