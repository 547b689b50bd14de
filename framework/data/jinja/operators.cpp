#include "framework/data/jinja/operators.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "framework/config/words.h"

namespace hexad::data::jinja {
namespace {

// Returns a bound of a slice; nullopt if it is missing.
std::optional<int64_t> bound(const Value& value, const Site& site) {
  if (value.get<std::monostate>() != nullptr) return std::nullopt;
  const int64_t* integer = value.get<int64_t>();
  if (integer == nullptr) site.refuse("a bound of a slice is ", kind_of(value), ", expected a whole number");
  return *integer;
}

// Returns object[name].
Value named_member(const Value& object, const std::string& name, const Site& site) {
  if (object.get<Undefined>() != nullptr)
    site.refuse(kind_of(object), " has no member '", config::shown(name), "', expected a message or an object");
  const Object* holder = object.object();
  if (holder == nullptr) return undefined(name);
  if (const Value* found = found_member(*holder, name, site)) return *found;
  if (holder->kind == ObjectKind::loop)
    site.refuse("loop.", config::shown(name), " is not supported; supported: index, index0, first, last, length");
  return undefined(name);
}

// Returns the characters of a text, and counts steps for this work.
std::vector<std::string_view> counted_characters(const Text& text, const Site& site) {
  site.spend(std::ssize(text.bytes()) / 8);
  return characters_of(text.bytes());
}

// Returns `character`, which must be a view of bytes of `text`, as a text with the same origins.
Text part_of(const Text& text, std::string_view character) {
  return text.part(character.data() - text.bytes().data(), character.size());
}

// Returns the index of element `given`, which counts from the end if it is negative; nullopt if there is no such
// element.
std::optional<size_t> index_of(int64_t given, int64_t size) {
  const int64_t index = given < 0 ? given + size : given;
  if (index < 0 || index >= size) return std::nullopt;
  return index;
}

// Returns the indices of the elements that [begin:end:step] selects from `size` elements.
std::vector<size_t> sliced(int64_t size, const Value& begin, const Value& end, const Value& step, const Site& site) {
  const int64_t stride = std::clamp(bound(step, site).value_or(1), -size - 1, size + 1);
  if (stride == 0) site.refuse("a slice has the step 0, expected another number");
  const int64_t lowest = stride > 0 ? 0 : -1, highest = stride > 0 ? size : size - 1;
  const auto position = [&](const Value& value, int64_t otherwise) {
    const auto given = bound(value, site);
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + size : *given, lowest, highest);
  };
  const int64_t first = position(begin, stride > 0 ? lowest : highest);
  const int64_t last = position(end, stride > 0 ? highest : lowest);
  std::vector<size_t> indices;
  for (int64_t i = first; stride > 0 ? i < last : i > last; i += stride) indices.push_back(i);
  return indices;
}

bool contains(const Value& container, const Value& wanted, const Site& site) {
  if (const List* list = container.list())
    return std::ranges::any_of(list->items, [&](const Value& item) { return equal(item, wanted, site); });
  if (container.get<Undefined>() != nullptr) return false;
  const Text* text = wanted.text();
  const Text* whole = container.text();
  const Object* mapping = container.mapping();
  if (text == nullptr || (whole == nullptr && mapping == nullptr))
    site.refuse("'in' is given ", kind_of(wanted), " and ", kind_of(container),
                ", expected a text in a text, a key in a message, or an item in a list");
  if (mapping != nullptr) return found_member(*mapping, text->bytes(), site) != nullptr;
  site.spend_search(whole->size(), text->size());
  return whole->bytes().find(text->bytes()) != std::string::npos;
}

// Returns a // b or a % b, rounded like in Python. b is neither 0 nor -1.
int64_t divided(std::string_view name, int64_t a, int64_t b) {
  const bool adjusts = a % b != 0 && (a < 0) != (b < 0);
  if (name == "//") return a / b - (adjusts ? 1 : 0);
  return a % b + (adjusts ? b : 0);
}

Value of_numbers(std::string_view name, int64_t a, int64_t b, const Site& site) {
  int64_t result = 0;
  bool overflows = false;
  if (name == "+") {
    overflows = __builtin_add_overflow(a, b, &result);
  } else if (name == "-") {
    overflows = __builtin_sub_overflow(a, b, &result);
  } else if (name == "*") {
    overflows = __builtin_mul_overflow(a, b, &result);
  } else if (b == 0) {
    site.refuse("divides ", a, " by 0, expected another divisor");
  } else if (b == -1) {
    overflows = name == "//" && __builtin_sub_overflow(int64_t{0}, a, &result);
  } else {
    result = divided(name, a, b);
  }
  if (overflows) site.refuse(a, " ", name, " ", b, " does not fit 64 bits, expected a result from -2^63 to 2^63 - 1");
  return number(result);
}

Value concatenated(const Value& left, const Value& right, const Site& site) {
  Text joined = printed(left, site);
  const Text end = printed(right, site);
  site.spend_text(joined.size() + end.size());
  joined.append(end);
  return text_value(std::move(joined));
}

}  // namespace

Value member(const Value& object, const std::string& name, const Site& site) {
  static constexpr std::array<std::string_view, 11> methods{"clear", "copy",    "fromkeys",   "get",    "items", "keys",
                                                            "pop",   "popitem", "setdefault", "update", "values"};
  // Jinja takes the method of a dictionary, not the member of the same name.
  if (object.mapping() != nullptr && std::ranges::find(methods, name) != methods.end())
    site.refuse("'.", name, "' of ", kind_of(object), " is a method, but is not called; write ['", name,
                "'] for the member");
  return named_member(object, name, site);
}

Value element(const Value& object, const Value& key, const Site& site) {
  if (const Text* name = key.text()) {
    site.spend_text(name->size());
    return named_member(object, name->bytes(), site);
  }
  const List* list = object.list();
  const Text* text = object.text();
  const int64_t* integer = key.get<int64_t>();
  if ((list == nullptr && text == nullptr) || integer == nullptr)
    site.refuse("uses ", kind_of(key), " as an index of ", kind_of(object),
                ", expected a whole number for a list or a text, or a text for a message or an object");
  if (list != nullptr) {
    if (const auto index = index_of(*integer, std::ssize(list->items))) return list->items[*index];
  } else {
    const std::vector<std::string_view> characters = counted_characters(*text, site);
    if (const auto index = index_of(*integer, std::ssize(characters)))
      return text_value(part_of(*text, characters[*index]));
  }
  return undefined(base::cat("element ", *integer));
}

Value slice(const Value& object, const Value& begin, const Value& end, const Value& step, const Site& site) {
  if (const Text* text = object.text()) {
    const std::vector<std::string_view> characters = counted_characters(*text, site);
    Text result;
    for (const size_t i : sliced(std::ssize(characters), begin, end, step, site))
      result.append(part_of(*text, characters[i]));
    return text_value(std::move(result));
  }
  const List* list = object.list();
  if (list == nullptr) site.refuse("takes a slice of ", kind_of(object), ", expected a list or a text");
  std::vector<Value> items;
  for (const size_t i : sliced(std::ssize(list->items), begin, end, step, site)) items.push_back(list->items[i]);
  return list_value(std::move(items), site);
}

bool compare(std::string_view name, const Value& left, const Value& right, const Site& site) {
  if (name == "==") return equal(left, right, site);
  if (name == "!=") return !equal(left, right, site);
  if (name == "in") return contains(right, left, site);
  if (name == "not in") return !contains(right, left, site);
  const int64_t *a = left.get<int64_t>(), *b = right.get<int64_t>();
  if (a == nullptr || b == nullptr)
    site.refuse("'", name, "' compares ", kind_of(left), " and ", kind_of(right), ", expected whole numbers");
  if (name == "<") return *a < *b;
  if (name == "<=") return *a <= *b;
  return name == ">" ? *a > *b : *a >= *b;
}

Value apply_operator(std::string_view name, const Value& left, const Value& right, const Site& site) {
  if (name == "~") return concatenated(left, right, site);
  const int64_t *a = left.get<int64_t>(), *b = right.get<int64_t>();
  if (a != nullptr && b != nullptr) return of_numbers(name, *a, *b, site);
  const Text *first = left.text(), *second = right.text();
  const List *front = left.list(), *back = right.list();
  if (name == "+" && first != nullptr && second != nullptr) return concatenated(left, right, site);
  if (name != "+" || front == nullptr || back == nullptr)
    site.refuse("'", name, "' is given ", kind_of(left), " and ", kind_of(right), ", expected two whole numbers",
                name == "+" ? ", two texts or two lists" : "");
  std::vector<Value> items = front->items;
  items.insert(items.end(), back->items.begin(), back->items.end());
  return list_value(std::move(items), site);
}

}  // namespace hexad::data::jinja
