// Chat templates that are refused: parts that are not supported, mistakes, and templates that exceed a limit.
#include "framework/data/jinja/template.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "framework/base/error.h"
#include "framework/data/jinja/limits.h"
#include "tests/data/data_folder.h"
#include "tests/data/jinja/rendered.h"

namespace hexad::data::jinja {

using base::cat;
namespace {

struct Case {
  std::string source;
  std::string_view problem;
};

void expect_refusals(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.source.substr(0, 200));
    expect_contains(message_of(ExitCode::data, [&] { rendered(c.source); }), c.problem);
  }
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// Returns statements that set `count` members of the namespace n.
std::string members(int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += cat("{% set n.m", i, " = 1 %}");
  return all;
}

TEST(ChatTemplateRefusal, NamesTagLineAndSupportedTags) {
  expect_refusals({
      {"a\nb\n{% block f %}{% endblock %}",
       "t.jinja:3: the tag {% block %} is not supported; supported tags: if, elif, else, for, set, macro, generation"},
      {"{% import 'a' as b %}", "t.jinja:1: the tag {% import %} is not supported"},
      {"{% include 'a' %}", "the tag {% include %} is not supported"},
      {"{% for m in messages recursive %}{% endfor %}", "recursive loops are not supported"},
      {"{% set a, b = 1, 2 %}",
       "{% set %} of blocks and of several variables is not supported, expected '=' after {% set a"},
      {"{% set a %}b{% endset %}", "{% set %} of blocks and of several variables is not supported"},
      {"{{ {'a': 1} }}", "dictionaries {...} are not supported"},
      {"{{ 1.5 }}", "found the number '1.5', expected a whole number"},
      {"{{ 1 / 2 }}", "'/' is not supported; supported operators: + - * // % ~"},
      {"{{ 2 ** 3 }}", "'**' is not supported"},
      {"{{ a @ b }}", "'@' is not supported"},
      {"{{ 'a' is eq('b') }}", "the test 'eq' has arguments, expected a test without arguments"},
      {R"({{ '\N{DOT}' }})", "the escape sequence \\N is not supported"},
  });
}

TEST(ChatTemplateRefusal, NamesFiltersTestsFunctionsAndMethodsWhenTheyAreUsed) {
  EXPECT_EQ(
      rendered("{% if tools %}{{ tools | items }}{{ tools is odd }}{{ now() }}{{ ''.title() }}{% endif %}").bytes(),
      "");
  expect_refusals({
      {"\n{{ messages | map('trim') }}",
       "t.jinja:2: the filter 'map' is not supported; supported: trim, length, count, tojson, first, last, default, "
       "list, "},
      {"{{ messages | selectattr('role', 'in', ['a']) }}", "'selectattr' is given the test 'in', expected equalto"},
      {"{{ [1] | rejectattr('role') }}",
       "'rejectattr' is given a list with a number, expected a list of messages or objects"},
      {"{{ 1 is odd }}", "the test 'odd' is not supported; supported: defined, undefined, none, string, mapping, "},
      {"{{ strftime_now('%d') }}",
       "the function 'strftime_now' is not supported; supported: namespace, raise_exception"},
      {"{{ 'a'.title() }}",
       "the method 'title' is not supported; supported: strip, lstrip, rstrip, split, startswith, endswith"},
      {"{{ messages[0].pop('role') }}", "the method 'pop' is not supported; supported: get, items, keys, values"},
      {"{{ messages.append(1) }}", "a list has no method 'append'"},
      {"{% for m in messages %}{{ loop.cycle }}{% endfor %}",
       "loop.cycle is not supported; supported: index, index0, first, last, length"},
      {"{{ [1] | length(a=2) }}", "'length' has 0 arguments and 1 keyword, expected 0 arguments"},
      {"{{ 'a'.split() }}", "'split' has 0 arguments and 0 keywords, expected 1 to 2 arguments"},
      {"{{ 12[1:] }}", "takes a slice of a number, expected a list or a text"},
      {"{{ 12[0] }}", "uses a number as an index of a number, expected a whole number for a list"},
      {"{{ (1)(2) }}", "calls a value, expected a function or a method"},
  });
}

TEST(ChatTemplateRefusal, MistakesAreNamedWithTheirLine) {
  expect_refusals({
      {"{% if a %}\n\n", "t.jinja:1: {% if %} is not closed, expected {% endif %}"},
      {"{% for a in b %}{% endif %}", "{% endif %} closes no open tag"},
      {"a\n{% endfor %}", "t.jinja:2: {% endfor %} closes no open tag"},
      {"\n{{ a", "t.jinja:2: {{ is not closed, expected }}"},
      {"{% if", "{% is not closed, expected %}"},
      {"{# a", "{# is not closed, expected #}"},
      {"{{ 'a }}", "a text that begins with ' is not closed"},
      {"{{ }}", "found '}}', expected an expression"},
      {"{{ a b }}", "found 'b', expected }}"},
      {"{{ a[] }}", "found ']', expected a key or an index"},
      {"{{ f(a b) }}", "found 'b', expected ,"},
      {"{{ a. }}", "expected a name after '.'"},
      {"{% for in b %}{% endfor %}", "found 'in', expected a variable of the loop"},
      {"{{ '\\x4' }}", "is not a character, expected 2 hexadecimal digits"},
      {"{{ 1234567890123456789 }}", "a number has 19 digits, expected at most 18"},
      {"{{ missing.name }}", "undefined ('missing') has no member 'name'"},
      {"{{ messages[9].role }}", "undefined ('element 9') has no member 'role'"},
      {"{{ 'a' + missing }}",
       "'+' is given a text and undefined ('missing'), expected two whole numbers, two texts or two lists"},
      {"{{ 'a' + 1 }}", "'+' is given a text and a number"},
      {"{{ +true }}", "'+' is given a number and a boolean"},
      {"{{ 1 is in [1] }}", "found 'in', expected the name of a test"},
      {"{{ 'a' * 2 }}", "'*' is given a text and a number, expected two whole numbers"},
      {"{{ 1 // 0 }}", "divides 1 by 0"},
      {"{{ 999999999999999999 * 99 }}", "999999999999999999 * 99 does not fit 64 bits"},
      {"{{ 'a' < 'b' }}", "'<' compares a text and a text, expected whole numbers"},
      {"{{ 1 in 'a' }}", "'in' is given a number and a text"},
      {"{{ messages }}", "writes a list, expected a text or a number; the filter tojson writes lists and messages"},
      {"{{ messages[::0] }}", "a slice has the step 0"},
      {"{{ messages['a':] }}", "a bound of a slice is a text, expected a whole number"},
      {"{% for c in 'abc' %}{% endfor %}", "loops over a text, expected a list, a message or an object"},
      {"{% for a, b in messages %}{% endfor %}", "an item of the loop is a message, expected a list of 2"},
      {"{% set bos_token.a = 1 %}", "'bos_token' is a text, expected a namespace"},
      {"{{ raise_exception('no\nroles') }}", R"(t.jinja:1: the template refuses the conversation: no\x0aroles)"},
      {"{{ missing | tojson }}", "'tojson' is given undefined ('missing'), expected a text, a number"},
      {"{{ 'a'.split('') }}", "'split' is given an empty text, expected a separator"},
      {"{{ 'a'.startswith(1) }}", "'startswith' is given a number, expected a text"},
      {"{{ 1 | length }}", "'length' is given a number, expected a text, a list, a message or an object"},
      {"{{ 'a' | first }}", "'first' is given a text, expected a list"},
  });
}

TEST(ChatTemplateRefusal, NamespacesHoldNeitherThemselvesNorEachOther) {
  expect_refusals({
      {"{% set a = namespace() %}{% set a.a = a %}", "a namespace cannot hold a namespace"},
      {"{% set a = namespace() %}{% set a.b = [a] %}", "a list cannot hold a namespace"},
      {"{% set a = namespace() %}{% set b = namespace(a=a) %}", "a namespace cannot hold a namespace"},
  });
  EXPECT_EQ(rendered("{% macro f(n) %}{{ n.a }}{% endmacro %}{% set n = namespace(a=1) %}{{ f(n=n) }}").bytes(), "1")
      << "a parameter may be a namespace";
}

TEST(ChatTemplateRefusal, MistakesInMacrosAreNamed) {
  expect_refusals({
      {"{% macro a(b=1, c) %}{% endmacro %}", "the parameter 'c' has no default but follows a parameter with"},
      {"{% macro a %}{% endmacro %}", "found '%}', expected ("},
      {"\n{% macro a() %}", "t.jinja:2: {% macro %} is not closed, expected {% endmacro %}"},
      {"{% macro a(b) %}{% endmacro %}{{ a(1, 2) }}", "the macro 'a' is given 2 arguments, expected at most 1"},
      {"{% macro a(b) %}{% endmacro %}{{ a(c=2) }}", "the macro 'a' has no parameter 'c'"},
      {"\n{% for m in messages %}{% macro a() %}{% endmacro %}{% endfor %}",
       "t.jinja:2: the macro 'a' is in a loop, a macro or {% generation %}, expected a macro outside of these"},
      {"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "macro calls are nested more than 8 levels deep"},
  });
}

TEST(ChatTemplateLimit, BoundsSourceDepthStepsAndTexts) {
  expect_refusals({
      {std::string(largest_template + 1, 'a'), "t.jinja: has 262145 bytes, expected a chat template of at most 262144"},
      {cat("{{ ", repeated("(", 200), "1", repeated(")", 200), " }}"),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {cat("{{ ", repeated("not ", 200), "1 }}"),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {cat("{{ ", repeated("-", 200), "1 }}"),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {cat("{{ 1", repeated(" + 1", 200), " }}"),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {cat("{{ a", repeated(".a", 200), " }}"),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {cat(repeated("{% if a %}", 200), repeated("{% endif %}", 200)),
       "blocks or expressions are nested more than 100 levels deep, the maximum"},
      {"{% set n = namespace(t='aaaaaaaa') %}{% for a in messages %}{% for b in messages %}{% for c in messages %}"
       "{% set n.t = n.t ~ n.t %}{% endfor %}{% endfor %}{% endfor %}",
       "makes a text of 33554432 bytes, expected at most 16777216"},
      {"{% set n = namespace(l=[1, 2]) %}{% for a in messages %}{% for b in messages %}{% for c in messages %}"
       "{% set n.l = n.l + n.l %}{% endfor %}{% endfor %}{% endfor %}",
       "the template takes more than 1000000 steps"},
      {"{% set n = namespace(l=[]) %}{% for a in messages %}{% for b in messages %}{% set n.l = [n.l] %}{% endfor %}{% "
       "endfor %}",
       "lists are nested 9 levels deep, expected at most 8"},
      {cat("{{ ", std::string(101, 'a'), " }}"), "a name has 101 bytes, expected at most 100"},
      {cat("{% set n = namespace() %}", members(101)), "a namespace has more than 100 members"},
      {"{% set n = namespace(t='aaaaaaaa') %}{% for a in messages %}{% for b in messages %}{% for c in messages[1:] %}"
       "{% set n.t = n.t ~ n.t %}{% endfor %}{% endfor %}{% endfor %}{{ n.t + 'b' in n.t ~ n.t }}",
       "the template takes more than 1000000 steps"},
  });
  EXPECT_EQ(rendered(cat("{{ 1", repeated(" + 1", 90), " }}")).bytes(), "91");
  EXPECT_EQ(rendered(cat(repeated("{% if true %}", 90), "a", repeated("{% endif %}", 90))).bytes(), "a");
}

TEST(ChatTemplateOrigin, BytesOfMessagesKeepTheirOrigin) {
  const auto from_messages = [](std::string_view source) {
    const Text text = rendered(source);
    std::string found;
    for (size_t i = 0; i < text.size(); ++i) found += text.origin(i) == Origin::message ? text.bytes()[i] : '_';
    return found;
  };
  EXPECT_EQ(from_messages("a{{ messages[1].content }}b"), "_Hi_");
  EXPECT_EQ(from_messages("{{ bos_token + messages[1].role ~ messages[1].content + 'x' }}"), "_______Hi_");
  EXPECT_EQ(from_messages("{{ messages[0].content | trim }}|{{ messages[0].content.strip(' B') }}"),
            "Be brief._e brief.");
  EXPECT_EQ(from_messages("{{ messages[0].content.split('brief')[0] }}|"), " Be _");
  EXPECT_EQ(from_messages("{{ messages[1] | tojson }}"), cat(std::string(29, '_'), "Hi__"));
  EXPECT_EQ(from_messages("{% set n = namespace(t='<') %}{% set n.t = n.t + messages[2].content %}{{ n.t }}"), "_Yo");
  EXPECT_EQ(from_messages("{% set a = messages[1].content if true else 'x' %}{{ a or 'y' }}"), "Hi");
}

}  // namespace
}  // namespace hexad::data::jinja
