// Values of expressions in chat templates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "framework/data/jinja/limits.h"
#include "framework/data/jinja/text.h"

namespace hexad::data::jinja {

struct List;
struct Object;

/// A variable, key or element that does not exist. `name` is for messages.
struct Undefined {
  std::string name = {};
};

using TextPointer = std::shared_ptr<const Text>;
using ListPointer = std::shared_ptr<const List>;
using ObjectPointer = std::shared_ptr<Object>;

/// A value. std::monostate is Jinja's `none`.
struct Value {
  using Data = std::variant<Undefined, std::monostate, bool, int64_t, double, TextPointer, ListPointer, ObjectPointer>;
  Data data = Undefined{};

  template <class T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
  /// Returns the text; null if the value is not a text.
  const Text* text() const {
    const TextPointer* found = get<TextPointer>();
    return found == nullptr ? nullptr : found->get();
  }
  const List* list() const {
    const ListPointer* found = get<ListPointer>();
    return found == nullptr ? nullptr : found->get();
  }
  Object* object() const {
    const ObjectPointer* found = get<ObjectPointer>();
    return found == nullptr ? nullptr : found->get();
  }
  /// Returns the object if it is a message or data, which are dictionaries in Python; otherwise null.
  const Object* mapping() const;
};

struct List {
  std::vector<Value> items;
  int depth = 1;  // depth of nested lists, including this one
  // True for the result of the filter selectattr, rejectattr or items. Python treats it as true even if it has no
  // items.
  bool generator = false;
  bool data = false;  // true for a list that comes with a conversation, or a pair that items_of() makes
};

enum class ObjectKind : uint8_t {
  message,
  data,  // an object of JSON that comes with a conversation; its keys have the origin message
  loop,
  name_space
};

struct Object {
  ObjectKind kind;
  std::vector<std::pair<std::string, Value>> members = {};  // in the order in which tojson writes them

  /// Returns the member; null if there is none.
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

inline Value boolean(bool value) { return {Value::Data(std::in_place_type<bool>, value)}; }
inline Value number(int64_t value) { return {Value::Data(std::in_place_type<int64_t>, value)}; }
inline Value decimal(double value) { return {Value::Data(std::in_place_type<double>, value)}; }
inline Value none() { return {Value::Data(std::monostate{})}; }
inline Value undefined(std::string name) { return {Value::Data(Undefined{std::move(name)})}; }
Value text_value(Text text);
Value text_value(std::string bytes, Origin origin);
Value object_value(Object object);
/// Returns a list of values that come with a conversation, without the checks of list_value().
Value data_list(std::vector<Value> items);
/// Returns object.find(name). Counts the steps of the search (Site::spend()), which may compare long names.
const Value* found_member(const Object& object, std::string_view name, const Site& site);
/// Returns the keys (keys_of) or the pairs of key and value (items_of) of a message or of data. Counts the texts of the
/// keys as steps.
std::vector<Value> keys_of(const Object& mapping, const Site& site);
std::vector<Value> items_of(const Object& mapping, const Site& site);

/// Returns a list of these items. Throws Error(data) if lists would be nested too deeply, or if an item is a namespace
/// or a loop.
Value list_value(std::vector<Value> items, const Site& site, bool generator = false);

/// Returns a name of the value's kind for messages, such as "a list" or "undefined ('tools')".
std::string kind_of(const Value& value);
/// True if `value` counts as true in an `if`.
bool is_truthy(const Value& value);
/// True if the operator == of Python would be true.
bool equal(const Value& a, const Value& b, const Site& site);
/// Returns the text that {{ }} writes. Throws Error(data) for lists and objects.
Text printed(const Value& value, const Site& site);

/// Form of the text that the filter tojson writes.
struct JsonStyle {
  std::optional<int64_t> indent = {};  // spaces for each level; missing: all in one line
  std::string item_separator = ", ", key_separator = ": ";
};

/// Returns the text of the filter tojson, which equals the result of Python's json.dumps(value, ensure_ascii=False)
/// with the indent and separators of `style`. Keys, numbers and marks inside objects and lists of data have the origin
/// message. Bytes of texts keep their origin.
Text json_text(const Value& value, const JsonStyle& style, const Site& site);

}  // namespace hexad::data::jinja
