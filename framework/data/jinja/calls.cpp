#include "framework/data/jinja/calls.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "framework/base/counted.h"
#include "framework/base/escaped.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"

namespace hexad::data::jinja {
using base::cat;
namespace {

using Names = std::span<const std::string_view>;

[[noreturn]] void refuse_name(std::string_view kind, std::string_view name, Names supported, const Site& site) {
  site.refuse("the ", kind, " '", config::shown(name), "' is not supported; supported: ", config::join(supported));
}

// Throws Error(data) if a call has keywords, or fewer than `least` or more than `most` arguments.
void require_count(std::string_view name, const Arguments& arguments, size_t least, size_t most, const Site& site) {
  const size_t count = arguments.values.size();
  if (arguments.named.empty() && count >= least && count <= most) return;
  const auto counted = [](size_t n, std::string_view noun) { return base::counted(static_cast<int64_t>(n), noun); };
  site.refuse("'", config::shown(name), "' has ", counted(count, "argument"), " and ",
              counted(arguments.named.size(), "keyword"), ", expected ", least == most ? "" : cat(least, " to "),
              counted(most, "argument"), " and no keyword");
}

const Text& text_argument(std::string_view name, const Value& value, const Site& site) {
  const Text* text = value.text();
  if (text == nullptr) site.refuse("'", config::shown(name), "' is given ", kind_of(value), ", expected a text");
  return *text;
}

Value strip(std::string_view name, const Text& text, const Arguments& arguments, Side side, const Site& site) {
  require_count(name, arguments, 0, 1, site);
  site.spend_text(text.size());
  if (arguments.values.empty() || arguments.values.front().get<std::monostate>() != nullptr)
    return text_value(stripped(text, white_space(), side));
  const Text& removed = text_argument(name, arguments.values.front(), site);
  // Each character at an end of the text may be compared with all characters of the argument.
  site.spend(static_cast<int64_t>(removed.size()) * (1 + static_cast<int64_t>(text.size() / 256)));
  return text_value(stripped(text, characters_of(removed.bytes()), side));
}

Value split(const Text& text, const Arguments& arguments, const Site& site) {
  require_count("split", arguments, 1, 2, site);
  const std::string& separator = text_argument("split", arguments.values.front(), site).bytes();
  if (separator.empty()) site.refuse("'split' is given an empty text, expected a separator");
  int64_t cuts = std::numeric_limits<int64_t>::max();
  if (arguments.values.size() == 2) {
    const int64_t* most = arguments.values[1].get<int64_t>();
    if (most == nullptr)
      site.refuse("'split' is given ", kind_of(arguments.values[1]), ", expected a whole number of cuts");
    if (*most >= 0) cuts = *most;
  }
  site.spend_search(text.size(), separator.size());
  std::vector<Value> parts;
  size_t begin = 0;
  for (size_t at = text.bytes().find(separator); at != std::string::npos && cuts > 0; --cuts) {
    site.spend(1);
    parts.push_back(text_value(text.part(begin, at - begin)));
    begin = at + separator.size();
    at = text.bytes().find(separator, begin);
  }
  parts.push_back(text_value(text.part(begin)));
  return list_value(std::move(parts), site);
}

// Implements startswith and endswith, whose argument is a text or a list of texts.
Value begins_or_ends(std::string_view name, const Text& text, const Arguments& arguments, const Site& site) {
  require_count(name, arguments, 1, 1, site);
  const auto matches = [&](const Value& wanted) {
    const std::string& bytes = text_argument(name, wanted, site).bytes();
    site.spend_text(bytes.size());
    return name == "startswith" ? text.bytes().starts_with(bytes) : text.bytes().ends_with(bytes);
  };
  const Value& wanted = arguments.values.front();
  if (const List* list = wanted.list()) return boolean(std::ranges::any_of(list->items, matches));
  return boolean(matches(wanted));
}

Value length_of(const Value& value, const Site& site) {
  if (const Text* text = value.text()) {
    site.spend_text(text->size());
    return number(static_cast<int64_t>(base::utf8_characters(text->bytes())));
  }
  if (const List* list = value.list()) return number(std::ssize(list->items));
  if (const Object* mapping = value.mapping()) return number(std::ssize(mapping->members));
  if (value.get<Undefined>() != nullptr) return number(0);
  site.refuse("'length' is given ", kind_of(value), ", expected a text, a list, a message or an object");
}

// Selects the messages or objects of a list by the member that the first argument names. The member must be true or,
// with three arguments, equal the third argument. If `wanted` is false, returns the messages or objects that are not
// selected.
Value select(std::string_view name, const Value& value, const Arguments& arguments, bool wanted, const Site& site) {
  require_count(name, arguments, 1, 3, site);
  const std::string& key = text_argument(name, arguments.values.front(), site).bytes();
  const bool compares = arguments.values.size() == 3;
  if (arguments.values.size() == 2) site.refuse("'", name, "' is given 2 arguments, expected 1 or 3");
  if (compares) {
    const std::string& test = text_argument(name, arguments.values[1], site).bytes();
    if (test != "equalto" && test != "eq" && test != "==")
      site.refuse("'", name, "' is given the test '", config::shown(test), "', expected equalto, eq or ==");
  }
  const List* list = value.list();
  if (list == nullptr) site.refuse("'", name, "' is given ", kind_of(value), ", expected a list");
  std::vector<Value> chosen;
  for (const Value& item : list->items) {
    site.spend(1);
    const Object* object = item.object();
    if (object == nullptr)
      site.refuse("'", name, "' is given a list with ", kind_of(item), ", expected a list of messages or objects");
    const Value* found = found_member(*object, key, site);
    const bool matches = found != nullptr && (compares ? equal(*found, arguments.values[2], site) : is_truthy(*found));
    if (matches == wanted) chosen.push_back(item);
  }
  return list_value(std::move(chosen), site, true);
}

// Returns the first or last item of a list; undefined if the list is empty.
Value end_of_list(std::string_view name, const Value& value, const Site& site) {
  const List* list = value.list();
  if (list == nullptr) site.refuse("'", name, "' is given ", kind_of(value), ", expected a list");
  if (list->items.empty()) return undefined(std::string(name));
  return name == "first" ? list->items.front() : list->items.back();
}

// Returns the texts of the items with a separator between them.
Value join(const Value& value, const Arguments& arguments, const Site& site) {
  require_count("join", arguments, 0, 1, site);
  const List* list = value.list();
  if (list == nullptr) site.refuse("'join' is given ", kind_of(value), ", expected a list");
  const Text separator = arguments.values.empty() ? Text() : text_argument("join", arguments.values.front(), site);
  Text joined;
  for (size_t i = 0; i < list->items.size(); ++i) {
    if (i > 0) joined.append(separator);
    joined.append(printed(list->items[i], site));
    site.spend_text(separator.size());
    if (joined.size() > largest_text) site.spend_text(joined.size());
  }
  return text_value(std::move(joined));
}

// Returns a separator of the filter tojson. Refuses text of messages, because a separator is written as text of the
// template.
std::string separator_of(const Value& value, const Site& site) {
  const Text& text = text_argument("separators", value, site);
  for (size_t i = 0; i < text.size(); ++i)
    if (text.origin(i) == Origin::message)
      site.refuse("'separators' of 'tojson' are text of a message, expected text of the template");
  return text.bytes();
}

// Returns the style that the keywords of the filter tojson choose.
JsonStyle json_style(const Arguments& arguments, const Site& site) {
  static constexpr std::array<std::string_view, 3> supported{"ensure_ascii", "indent", "separators"};
  if (!arguments.values.empty())
    site.refuse("'tojson' has ", base::counted(std::ssize(arguments.values), "argument"),
                ", expected only keywords: ", config::join(supported));
  JsonStyle style;
  bool separates = false;
  for (const auto& [name, value] : arguments.named) {
    const bool is_none = value.get<std::monostate>() != nullptr;
    if (name == "indent") {
      const int64_t* spaces = value.get<int64_t>();
      if (!is_none && (spaces == nullptr || *spaces < 0 || *spaces > largest_indent))
        site.refuse("'indent' of 'tojson' is ", spaces == nullptr ? kind_of(value) : cat(*spaces),
                    ", expected none or a whole number from 0 to ", largest_indent);
      if (!is_none) style.indent = *spaces;
    } else if (name == "ensure_ascii") {
      if (is_truthy(value)) site.refuse("'ensure_ascii' of 'tojson' is true, which is not supported; expected false");
    } else if (name == "separators") {
      const List* both = value.list();
      if (!is_none && (both == nullptr || both->items.size() != 2))
        site.refuse(
            "'separators' of 'tojson' is ",
            both == nullptr ? kind_of(value) : cat("a list of ", base::counted(std::ssize(both->items), "item")),
            ", expected none or a list of two texts");
      if (is_none) continue;
      style.item_separator = separator_of(both->items[0], site);
      style.key_separator = separator_of(both->items[1], site);
      if (const size_t bytes = style.item_separator.size() + style.key_separator.size(); bytes > longest_name)
        site.refuse("'separators' of 'tojson' have ", bytes, " bytes together, expected at most ", longest_name);
      separates = true;
    } else {
      refuse_name("'tojson' keyword", name, supported, site);
    }
  }
  if (style.indent && !separates) style.item_separator = ",";  // like json.dumps() with an indent
  return style;
}

}  // namespace

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, const Site& site) {
  static constexpr std::array<std::string_view, 13> supported{"trim",       "length",  "count", "tojson", "first",
                                                              "last",       "default", "list",  "string", "selectattr",
                                                              "rejectattr", "items",   "join"};
  if (std::ranges::find(supported, name) == supported.end()) refuse_name("filter", name, supported, site);
  if (name == "trim") return strip(name, printed(value, site), arguments, Side::both, site);
  if (name == "default") {
    require_count(name, arguments, 1, 1, site);
    return value.get<Undefined>() != nullptr ? arguments.values.front() : value;
  }
  if (name == "selectattr" || name == "rejectattr") return select(name, value, arguments, name == "selectattr", site);
  if (name == "tojson") return text_value(json_text(value, json_style(arguments, site), site));
  if (name == "join") return join(value, arguments, site);
  require_count(name, arguments, 0, 0, site);
  if (name == "items") {
    if (value.get<Undefined>() != nullptr) return list_value({}, site, true);
    const Object* mapping = value.mapping();
    if (mapping == nullptr) site.refuse("'items' is given ", kind_of(value), ", expected a message or an object");
    return list_value(items_of(*mapping, site), site, true);
  }
  if (name == "string") return text_value(printed(value, site));
  if (name == "list" && value.list() == nullptr) site.refuse("'list' is given ", kind_of(value), ", expected a list");
  if (name == "list") return list_value(value.list()->items, site);
  if (name == "first" || name == "last") return end_of_list(name, value, site);
  return length_of(value, site);
}

bool apply_test(std::string_view name, const Value& value, const Site& site) {
  static constexpr std::array<std::string_view, 11> supported{"defined", "undefined", "none",     "string",
                                                              "mapping", "iterable",  "sequence", "number",
                                                              "boolean", "true",      "false"};
  if (std::ranges::find(supported, name) == supported.end()) refuse_name("test", name, supported, site);
  const bool missing = value.get<Undefined>() != nullptr;
  const bool* flag = value.get<bool>();
  const List* list = value.list();
  const bool mapping = value.mapping() != nullptr;
  if (name == "defined") return !missing;
  if (name == "undefined") return missing;
  if (name == "none") return value.get<std::monostate>() != nullptr;
  if (name == "string") return value.text() != nullptr;
  if (name == "mapping") return mapping;
  if (name == "iterable") return missing || mapping || value.text() != nullptr || list != nullptr;
  if (name == "sequence") return missing || mapping || value.text() != nullptr || (list != nullptr && !list->generator);
  if (name == "number")  // like in Python, where True is 1
    return flag != nullptr || value.get<int64_t>() != nullptr || value.get<double>() != nullptr;
  if (name == "boolean") return flag != nullptr;
  return flag != nullptr && *flag == (name == "true");
}

Value call_function(std::string_view name, const Arguments& arguments, const Site& site) {
  static constexpr std::array<std::string_view, 2> supported{"namespace", "raise_exception"};
  if (name == "raise_exception") {
    require_count(name, arguments, 1, 1, site);
    const std::string why = printed(arguments.values.front(), site).bytes();
    site.refuse("the template refuses the conversation: ", base::escaped(base::valid_utf8(why.substr(0, 200))));
  }
  if (name != "namespace") refuse_name("function", name, supported, site);
  if (!arguments.values.empty())
    site.refuse("'namespace' has ", base::counted(std::ssize(arguments.values), "positional argument"),
                ", expected only keywords: namespace(name=value)");
  if (arguments.named.size() > max_members)
    site.refuse("a namespace has ", arguments.named.size(), " members, expected at most ", max_members);
  Object object{ObjectKind::name_space};
  for (const auto& [member, value] : arguments.named) {
    require_no_cycle(value, site);
    object.set(member, value);
  }
  return object_value(std::move(object));
}

void require_no_cycle(const Value& value, const Site& site) {
  if (value.object() != nullptr && value.mapping() == nullptr)
    site.refuse("a namespace cannot hold ", kind_of(value), ", expected a text, a number, a list or a message");
}

Value call_method(const Value& object, std::string_view name, const Arguments& arguments, const Site& site) {
  static constexpr std::array<std::string_view, 6> of_text{"strip", "lstrip",     "rstrip",
                                                           "split", "startswith", "endswith"};
  static constexpr std::array<std::string_view, 4> of_mapping{"get", "items", "keys", "values"};
  if (const Text* text = object.text()) {
    if (name == "strip") return strip(name, *text, arguments, Side::both, site);
    if (name == "lstrip") return strip(name, *text, arguments, Side::left, site);
    if (name == "rstrip") return strip(name, *text, arguments, Side::right, site);
    if (name == "split") return split(*text, arguments, site);
    if (name == "startswith" || name == "endswith") return begins_or_ends(name, *text, arguments, site);
    refuse_name("method", name, of_text, site);
  }
  const Object* mapping = object.mapping();
  if (mapping == nullptr)
    site.refuse(kind_of(object), " has no method '", config::shown(name), "', expected a text or a message");
  if (std::ranges::find(of_mapping, name) == of_mapping.end()) refuse_name("method", name, of_mapping, site);
  if (name == "get") {
    require_count(name, arguments, 1, 2, site);
    const std::string& key = text_argument(name, arguments.values.front(), site).bytes();
    if (const Value* found = found_member(*mapping, key, site)) return *found;
    return arguments.values.size() == 2 ? arguments.values.back() : none();
  }
  require_count(name, arguments, 0, 0, site);
  if (name == "items") return list_value(items_of(*mapping, site), site);
  if (name == "keys") return list_value(keys_of(*mapping, site), site);
  std::vector<Value> values;
  for (const auto& [key, value] : mapping->members) values.push_back(value);
  return list_value(std::move(values), site);
}

}  // namespace hexad::data::jinja
