#include "framework/data/jinja/value.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "framework/config/words.h"

namespace hexad::data::jinja {
using base::cat;
namespace {

// Returns the value of a whole number or boolean (true is 1, like in Python); nullopt for other kinds.
std::optional<int64_t> number_of(const Value& value) {
  if (const bool* flag = value.get<bool>()) return *flag ? 1 : 0;
  if (const int64_t* integer = value.get<int64_t>()) return *integer;
  return std::nullopt;
}

// Returns the value of any number or boolean; nullopt for other kinds.
std::optional<double> decimal_of(const Value& value) {
  if (const double* decimal = value.get<double>()) return *decimal;
  if (const auto integer = number_of(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

// Returns the text of Python's repr(). fmt follows the same rules for exponents.
std::string decimal_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

bool equal_lists(const List& a, const List& b, const Site& site) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equal(a.items[i], b.items[i], site)) return false;
  return true;
}

bool equal_objects(const Object& a, const Object& b, const Site& site) {
  if (&a == &b) return true;
  const auto is_mapping = [](const Object& object) {
    return object.kind == ObjectKind::message || object.kind == ObjectKind::data;
  };
  if (!is_mapping(a) || !is_mapping(b) || a.members.size() != b.members.size()) return false;
  return std::ranges::all_of(a.members, [&](const auto& member) {
    const Value* other = found_member(b, member.first, site);
    return other != nullptr && equal(member.second, *other, site);
  });
}

// Writes JSON. Bytes of texts keep their origin.
class JsonText {
 public:
  JsonText(const JsonStyle& style, const Site& site) : style_(style), site_(site) {}

  void write(const Value& value) {
    site_.spend(1);
    check();
    if (const Text* text = value.text()) return write_text(*text);
    if (const List* list = value.list()) return write_list(*list);
    if (const Object* object = value.mapping()) return write_object(*object);
    if (const bool* flag = value.get<bool>()) return mark(*flag ? "true" : "false");
    if (const int64_t* integer = value.get<int64_t>()) return mark(std::to_string(*integer));
    if (const double* decimal = value.get<double>()) return mark(decimal_text(*decimal));
    if (value.get<std::monostate>() != nullptr) return mark("null");
    site_.refuse("'tojson' is given ", kind_of(value),
                 ", expected a text, a number, a boolean, none, a list or an object");
  }
  Text take() { return std::move(out_); }

 private:
  void mark(std::string_view bytes) { out_.append(bytes, marks_); }
  void check() const {
    if (out_.size() > largest_text) site_.spend_text(out_.size());
  }
  void write_text(const Text& text) {
    site_.spend_text(text.size());
    mark("\"");
    for (size_t i = 0; i < text.size(); ++i) out_.append(escaped_byte(text.bytes()[i]), text.origin(i));
    mark("\"");
    check();
  }
  // Writes the separator and the line break before item `index` of a list or object.
  void separate(size_t index) {
    if (index > 0) mark(style_.item_separator);
    new_line(depth_);
  }
  void new_line(int64_t depth) {
    if (!style_.indent) return;
    mark("\n");
    mark(std::string(*style_.indent * depth, ' '));
  }
  void write_list(const List& list) {
    const Origin outer = marks_;
    if (list.data) marks_ = Origin::message;
    mark("[");
    ++depth_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      separate(i);
      write(list.items[i]);
    }
    --depth_;
    if (!list.items.empty()) new_line(depth_);
    mark("]");
    marks_ = outer;
    check();
  }
  void write_object(const Object& object) {
    const Origin outer = marks_;
    if (object.kind == ObjectKind::data) marks_ = Origin::message;
    mark("{");
    ++depth_;
    for (size_t i = 0; i < object.members.size(); ++i) {
      separate(i);
      write_text(Text(object.members[i].first, marks_));
      mark(style_.key_separator);
      write(object.members[i].second);
    }
    --depth_;
    if (!object.members.empty()) new_line(depth_);
    mark("}");
    marks_ = outer;
  }
  static std::string escaped_byte(char c) {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        return static_cast<unsigned char>(c) < 0x20 ? fmt::format("\\u{:04x}", static_cast<int>(c)) : std::string(1, c);
    }
  }

  const JsonStyle& style_;
  const Site& site_;
  Origin marks_ = Origin::model;  // origin of brackets, separators, numbers and keys
  int64_t depth_ = 0;             // number of open lists and objects
  Text out_;
};

}  // namespace

const Object* Value::mapping() const {
  const Object* found = object();
  const bool is_mapping = found != nullptr && (found->kind == ObjectKind::message || found->kind == ObjectKind::data);
  return is_mapping ? found : nullptr;
}

const Value* Object::find(std::string_view name) const {
  for (const auto& [known, value] : members)
    if (known == name) return &value;
  return nullptr;
}

void Object::set(std::string_view name, Value value) {
  for (auto& [known, old] : members) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  members.emplace_back(name, std::move(value));
}

Value text_value(Text text) { return {Value::Data(TextPointer(std::make_shared<const Text>(std::move(text))))}; }

Value text_value(std::string bytes, Origin origin) { return text_value(Text(std::move(bytes), origin)); }

Value object_value(Object object) { return {Value::Data(ObjectPointer(std::make_shared<Object>(std::move(object))))}; }

Value data_list(std::vector<Value> items) {
  return {Value::Data(ListPointer(std::make_shared<const List>(List{.items = std::move(items), .data = true})))};
}

const Value* found_member(const Object& object, std::string_view name, const Site& site) {
  const auto members = std::ssize(object.members);
  site.spend(members / 16 + members * (std::ssize(name) / 256));
  return object.find(name);
}

std::vector<Value> keys_of(const Object& mapping, const Site& site) {
  const Origin origin = mapping.kind == ObjectKind::data ? Origin::message : Origin::model;
  std::vector<Value> keys;
  for (const auto& [key, value] : mapping.members) {
    site.spend_text(key.size());
    keys.push_back(text_value(key, origin));
  }
  return keys;
}

std::vector<Value> items_of(const Object& mapping, const Site& site) {
  std::vector<Value> pairs = keys_of(mapping, site);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = data_list({pairs[i], mapping.members[i].second});
  return pairs;
}

Value list_value(std::vector<Value> items, const Site& site, bool generator) {
  int depth = 1;
  for (const Value& item : items) {
    if (const List* inner = item.list()) depth = std::max(depth, inner->depth + 1);
    if (item.object() != nullptr && item.mapping() == nullptr)
      site.refuse("a list cannot hold ", kind_of(item),
                  ", expected a text, a number, a boolean, none, a list or a message");
  }
  if (depth > max_nested_lists)
    site.refuse("lists are nested ", depth, " levels deep, expected at most ", max_nested_lists);
  site.spend(1 + std::ssize(items));
  return {Value::Data(ListPointer(std::make_shared<const List>(List{std::move(items), depth, generator})))};
}

std::string kind_of(const Value& value) {
  if (const Undefined* missing = value.get<Undefined>()) return cat("undefined ('", config::shown(missing->name), "')");
  if (value.get<std::monostate>() != nullptr) return "none";
  if (value.get<bool>() != nullptr) return "a boolean";
  if (value.get<int64_t>() != nullptr) return "a number";
  if (value.get<double>() != nullptr) return "a decimal number";
  if (value.text() != nullptr) return "a text";
  if (value.list() != nullptr) return "a list";
  switch (value.object()->kind) {
    case ObjectKind::message:
      return "a message";
    case ObjectKind::data:
      return "an object";
    case ObjectKind::loop:
      return "a loop";
    case ObjectKind::name_space:
      break;
  }
  return "a namespace";
}

bool is_truthy(const Value& value) {
  if (const auto decimal = decimal_of(value)) return *decimal != 0;
  if (const Text* text = value.text()) return text->size() > 0;
  if (const List* list = value.list()) return list->generator || !list->items.empty();
  if (const Object* mapping = value.mapping()) return !mapping->members.empty();
  return value.object() != nullptr;
}

bool equal(const Value& a, const Value& b, const Site& site) {
  site.spend(1);
  if (const auto left = number_of(a), right = number_of(b); left && right) return *left == *right;
  if (const auto left = decimal_of(a)) return left == decimal_of(b);
  if (a.data.index() != b.data.index()) return false;
  if (const Text* text = a.text()) {
    if (text->size() != b.text()->size()) return false;
    site.spend_text(text->size());
    return text->bytes() == b.text()->bytes();
  }
  if (const List* list = a.list()) return equal_lists(*list, *b.list(), site);
  if (const Object* object = a.object()) return equal_objects(*object, *b.object(), site);
  return true;  // both are undefined, or both are none
}

Text printed(const Value& value, const Site& site) {
  if (const Text* text = value.text()) {
    site.spend_text(text->size());
    return *text;
  }
  if (value.get<Undefined>() != nullptr) return {};
  if (value.get<std::monostate>() != nullptr) return {"None", Origin::model};
  if (const bool* flag = value.get<bool>()) return {*flag ? "True" : "False", Origin::model};
  if (const int64_t* integer = value.get<int64_t>()) return {std::to_string(*integer), Origin::model};
  if (const double* decimal = value.get<double>()) return {decimal_text(*decimal), Origin::model};
  site.refuse("writes ", kind_of(value), ", expected a text or a number; the filter tojson writes lists and messages");
}

Text json_text(const Value& value, const JsonStyle& style, const Site& site) {
  JsonText json(style, site);
  json.write(value);
  return json.take();
}

}  // namespace hexad::data::jinja
