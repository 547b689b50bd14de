// Run-time descriptions of the C++ types in recipes. The functions that read, write, document and compare recipes use
// these descriptions. Each recipe struct therefore needs only a description and one instantiation of its fields().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "framework/config/byte_size.h"
#include "framework/config/constraints.h"
#include "framework/config/curve.h"

namespace hexad::config {

class Visitor;

enum class Kind : uint8_t { boolean, integer, byte_size, real, text, enumeration, curve, optional, list, section };

struct EnumName {
  uint64_t bits;
  std::string_view name;
};

/// Description of a type: its kind, and operations on a value through a void*. Members that the kind does not need are
/// empty.
struct Type {
  Kind kind;

  // boolean, integer, byte_size, enumeration: access to the value, widened to 64 bits (two's complement).
  uint64_t (*get)(const void*) = nullptr;
  void (*set)(void*, uint64_t) = nullptr;
  int64_t low = 0;  // integer, byte_size: range of values
  uint64_t high = 0;
  std::span<const EnumName> names{};  // enumeration: values and names

  // list and optional; an optional is a list of at most one element
  const Type* element = nullptr;
  size_t (*size)(const void*) = nullptr;
  void (*resize)(void*, size_t) = nullptr;
  void* (*at)(void*, size_t) = nullptr;

  // section
  void (*fields)(void*, Visitor&) = nullptr;

  bool is_signed() const { return low < 0; }
};

/// Declaration of a key in the struct of a section.
struct Field {
  std::string_view key;
  std::string_view doc;
  std::vector<Constraint> constraints;
  std::string_view unset_word = "none";  // the text of an unset optional
  bool is_path = false;

  void add(const Constraint& c) { constraints.push_back(c); }
  void add(Automatic) { unset_word = "auto"; }
  void add(FilePath) { is_path = true; }
  /// Adds the rule in an optional; does nothing if the optional is empty.
  template <class Rule>
  void add(const std::optional<Rule>& rule) {
    if (rule) add(*rule);
  }
};

namespace detail {

template <class T>
struct TypeMaker;
template <class T>
struct TypeOf {
  static constexpr Type value = TypeMaker<T>::make();
};

/// Values and names of the enumerators of E, in the order of enum_names(E).
template <class E>
inline constexpr auto enum_table = [] {
  constexpr auto pairs = enum_names(E{});
  std::array<EnumName, pairs.size()> table{};
  for (size_t i = 0; i < pairs.size(); ++i)
    table[i] = {static_cast<uint64_t>(static_cast<int64_t>(pairs[i].first)), pairs[i].second};
  return table;
}();

template <class T>
constexpr Type with_bits(Kind kind) {
  Type type{kind};
  type.get = [](const void* p) { return static_cast<uint64_t>(*static_cast<const T*>(p)); };
  type.set = [](void* p, uint64_t bits) { *static_cast<T*>(p) = static_cast<T>(bits); };
  return type;
}

template <class T, class Range>
constexpr Type with_range(Kind kind) {
  Type type = with_bits<T>(kind);
  type.low = static_cast<int64_t>(std::numeric_limits<Range>::min());
  type.high = static_cast<uint64_t>(std::numeric_limits<Range>::max());
  return type;
}

template <class T>
struct TypeMaker {
  static constexpr Type make() {
    if constexpr (std::is_same_v<T, bool>) {
      return with_bits<T>(Kind::boolean);
    } else if constexpr (std::is_same_v<T, double>) {
      return Type{Kind::real};
    } else if constexpr (std::is_same_v<T, std::string>) {
      return Type{Kind::text};
    } else if constexpr (std::is_same_v<T, Curve>) {
      return Type{Kind::curve};
    } else if constexpr (std::is_enum_v<T>) {
      Type type = with_bits<T>(Kind::enumeration);
      type.names = enum_table<T>;
      return type;
    } else if constexpr (std::is_same_v<T, ByteSize>) {
      return with_range<T, int64_t>(Kind::byte_size);
    } else if constexpr (std::is_integral_v<T>) {
      return with_range<T, T>(Kind::integer);
    } else {
      static_assert(std::is_class_v<T>,
                    "recipe members must be bool, integer, ByteSize, double, std::string, enum, Curve, optional, "
                    "vector or struct");
      Type type{Kind::section};
      type.fields = [](void* p, Visitor& v) { static_cast<T*>(p)->fields(v); };
      return type;
    }
  }
};

template <class E>
struct TypeMaker<std::vector<E>> {
  static_assert(!std::is_same_v<E, bool>, "std::vector<bool> has no addressable elements");
  static constexpr Type make() {
    using List = std::vector<E>;
    Type type{Kind::list};
    type.element = &TypeOf<E>::value;
    type.size = [](const void* p) { return static_cast<const List*>(p)->size(); };
    type.resize = [](void* p, size_t n) { static_cast<List*>(p)->resize(n); };
    type.at = [](void* p, size_t i) -> void* { return &(*static_cast<List*>(p))[i]; };
    return type;
  }
};

template <class E>
struct TypeMaker<std::optional<E>> {
  static constexpr Type make() {
    using Optional = std::optional<E>;
    Type type{Kind::optional};
    type.element = &TypeOf<E>::value;
    type.size = [](const void* p) { return size_t{static_cast<const Optional*>(p)->has_value()}; };
    type.resize = [](void* p, size_t n) {
      auto& optional = *static_cast<Optional*>(p);
      if (n == 0) optional.reset();
      if (n == 1 && !optional) optional.emplace();
    };
    type.at = [](void* p, size_t) -> void* { return &**static_cast<Optional*>(p); };
    return type;
  }
};

}  // namespace detail

/// Description of the type T.
template <class T>
inline constexpr const Type& type_of = detail::TypeOf<T>::value;

/// Argument v of a struct's fields(). The function fields() calls v(key, member, doc, constraints...) for each member.
class Visitor {
 public:
  template <class T, class... Rules>
  void operator()(std::string_view key, T& value, std::string_view doc, const Rules&... rules) {
    Field field{key, doc, {}};
    (field.add(rules), ...);
    visit(field, &value, type_of<T>);
  }

 protected:
  ~Visitor() = default;
  virtual void visit(const Field& field, void* value, const Type& type) = 0;
};

}  // namespace hexad::config
