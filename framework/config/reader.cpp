#include <fmt/format.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/home.h"
#include "framework/config/scalar.h"
#include "framework/config/typed_recipe.h"
#include "framework/config/words.h"
#include "framework/config/writer.h"

namespace hexad::config {
namespace {

/// A key that its section does not declare. It is reported at the end, when all possible suggestions are known.
struct Unknown {
  const Node* node;
  std::string section;
  std::vector<std::string> legal;
};

struct Context {
  Problems& problems;
  std::vector<Unknown> unknown{};
};

/// A value's node and path. The node is nullptr if the recipe does not contain the value. Errors are then reported at
/// the position of the section that declares the value.
struct Place {
  const Node* node;
  std::string path;
  Position section;

  const Position& at() const { return node ? node->at : section; }
};

void read_value(Context& context, const Place& place, const Field& field, void* value, const Type& type);

class SectionReader final : public Visitor {
 public:
  SectionReader(Context& context, const Place& place) : context_(context), place_(place) {}

  void read(void* value, const Type& type) {
    type.fields(value, *this);
    if (!place_.node) return;
    for (const Node& child : place_.node->children)
      if (std::ranges::find(keys_, child.key) == keys_.end()) context_.unknown.push_back({&child, place_.path, keys_});
  }

 private:
  void visit(const Field& field, void* value, const Type& type) override {
    base::require(std::ranges::find(keys_, field.key) == keys_.end(), "[config] ", place_.path, " declares ", field.key,
                  " twice; expected each key once");
    keys_.emplace_back(field.key);
    const Node* node = place_.node ? place_.node->find(field.key) : nullptr;
    read_value(context_, {node, child_path(place_.path, field.key), place_.at()}, field, value, type);
  }

  Context& context_;
  const Place& place_;
  std::vector<std::string> keys_;
};

void report(Context& context, const Place& place, std::string_view what) {
  context.problems.report(place.at(), place.path,
                          fmt::format("{} ({}) {}", place.path, written_text(*place.node), what));
}

void check(Context& context, const Place& place, const Constraint& limit, long double measured,
           const std::string& text) {
  if (limit.holds(measured)) return;
  const std::string nearest = limit.nearest(measured);
  std::string line = place.node ? fmt::format("{} ({}) must {}", place.path, shown(text), limit.must())
                                : fmt::format("{} is not set; it must {}", place.path, limit.must());
  if (place.node && !nearest.empty()) line += "; nearest: " + nearest;
  context.problems.report(place.at(), place.path, std::move(line));
}

void read_section(Context& context, const Place& place, void* value, const Type& type) {
  Place inside = place;
  if (place.node && place.node->kind != Node::Kind::map) {
    if (place.node->kind != Node::Kind::null) report(context, place, "must be a section, with one key per line");
    inside.section = place.node->at;
    inside.node = nullptr;
  }
  context.problems.add_known(place.path, {place.at(), "", place.node != nullptr});
  SectionReader(context, inside).read(value, type);
}

/// Returns the field for the elements of a list, without the limits on the size of the list.
Field element_field(const Field& field) {
  Field out = field;
  std::erase_if(out.constraints, [](const Constraint& c) { return c.on_size(); });
  return out;
}

void read_list(Context& context, const Place& place, const Field& field, void* value, const Type& type) {
  if (place.node && place.node->kind != Node::Kind::list) {
    const bool single = place.node->kind == Node::Kind::scalar && type.element->kind != Kind::section;
    report(context, place,
           single ? fmt::format("must be a list; write [{}]", shown(place.node->text)) : "must be a list");
  } else {
    const Field inner = element_field(field);
    if (place.node) {
      type.resize(value, 0);  // a list in the recipe replaces the whole default
      type.resize(value, place.node->children.size());
    }
    for (size_t i = 0; i < type.size(value); ++i) {
      const Node* node = place.node ? &place.node->children[i] : nullptr;
      read_value(context, {node, child_path(place.path, std::to_string(i)), place.at()}, inner, type.at(value, i),
                 *type.element);
    }
    for (const Constraint& limit : field.constraints)
      if (limit.on_size())
        check(context, place, limit, static_cast<long double>(type.size(value)),
              flow_text(value, type, field.unset_word));
  }
  const std::string text = type.element->kind == Kind::section ? "" : flow_text(value, type, field.unset_word);
  context.problems.add_known(place.path, {place.at(), text, place.node != nullptr});
}

bool names(const Type& type, std::string_view word) {
  return type.kind == Kind::text || std::ranges::find(type.names, word, &EnumName::name) != type.names.end();
}

void read_optional(Context& context, const Place& place, const Field& field, void* value, const Type& type) {
  base::require(type.element->kind == Kind::text || !names(*type.element, field.unset_word), "[config] ", place.path,
                ": an enumerator is named ", field.unset_word,
                ", the word for an unset optional; expected another name");
  const Node* node = place.node;
  const bool bare = node && node->kind == Node::Kind::scalar && !node->quoted;
  const bool unset =
      node ? node->kind == Node::Kind::null || (bare && node->text == field.unset_word) : type.size(value) == 0;
  const bool wrong_word =
      !unset && bare && (node->text == "none" || node->text == "auto") && !names(*type.element, node->text);
  if (!unset && !wrong_word) {
    type.resize(value, 1);
    return read_value(context, place, field, type.at(value, 0), *type.element);
  }
  if (wrong_word)
    report(context, place, fmt::format("has no meaning for this key; write a value or {}", field.unset_word));
  else
    type.resize(value, 0);
  context.problems.add_known(place.path, {place.at(), std::string(field.unset_word), node != nullptr});
}

bool is_number(const Type& type) {
  return type.kind == Kind::integer || type.kind == Kind::byte_size || type.kind == Kind::real;
}

/// Replaces a leading ~ or ~user by the home folder. YAML does not replace a ~, and bash does not replace the ~ in an
/// override such as data.dataset=~/path.
void expand_home(Context& context, const Place& place, std::string& path) {
  try {
    path = base::expand_home(path);
  } catch (const base::Error& e) {
    report(context, place, e.what());
  }
}

void read_single(Context& context, const Place& place, const Field& field, void* value, const Type& type) {
  const std::string wrong = place.node ? read_scalar(*place.node, value, type) : "";
  const std::string text = scalar_text(value, type);
  const bool whole = type.kind == Kind::integer || type.kind == Kind::byte_size;
  context.problems.add_known(place.path, {place.at(), text, place.node != nullptr, whole});
  if (!wrong.empty()) {
    // If the number does not fit into the type, the message names the narrower limits of the key.
    Type narrow = type;
    for (const Constraint& limit : field.constraints) limit.narrow(narrow.low, narrow.high);
    return report(context, place, read_scalar(*place.node, value, narrow));
  }
  base::require(!field.is_path || type.kind == Kind::text, "[config] ", place.path,
                ": the key is a path, but its type is not text; expected a text");
  if (field.is_path && place.node) expand_home(context, place, *static_cast<std::string*>(value));
  for (const Constraint& limit : field.constraints) {
    base::require(type.kind == Kind::text ? limit.on_size() : is_number(type), "[config] ", place.path,
                  ": the limit \"", limit.must(),
                  "\" does not fit the key's type; expected a limit of a number, or of the size of a text");
    check(context, place, limit, magnitude(value, type), text);
  }
}

/// Reads a point [x, y]. Limits apply to y.
void read_point(Context& context, const Place& place, const Field& field, Curve::Point& point) {
  if (place.node->kind != Node::Kind::list || place.node->children.size() != 2)
    return report(context, place, "must be a point, [x, y]");
  const auto coordinate = [&](size_t i) -> Place {
    return {&place.node->children[i], child_path(place.path, std::to_string(i)), place.at()};
  };
  read_single(context, coordinate(0), Field{field.key, field.doc, {}}, &point.x, type_of<double>);
  read_single(context, coordinate(1), field, &point.y, type_of<double>);
}

void read_points(Context& context, const Place& place, const Field& field, Curve& curve) {
  const std::vector<Node>& nodes = place.node->children;
  if (nodes.size() < 2)
    return report(context, place, "must be a number (a constant) or at least two points, [[x, y], [x, y]]");
  curve.points.assign(nodes.size(), {});
  std::string before;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Place inner{&nodes[i], child_path(place.path, std::to_string(i)), place.at()};
    read_point(context, inner, field, curve.points[i]);
    if (i > 0 && context.problems.good({before, inner.path}) && !(curve.points[i].x > curve.points[i - 1].x))
      report(context, inner, "must have a larger x than the previous point");
    before = inner.path;
  }
}

void read_curve(Context& context, const Place& place, const Field& field, Curve& curve) {
  if (!place.node) {
    for (const Constraint& limit : field.constraints)
      for (const Curve::Point& point : curve.points) check(context, place, limit, point.y, "");
  } else if (place.node->kind == Node::Kind::list) {
    read_points(context, place, field, curve);
  } else {
    double constant = curve.points.front().y;
    read_single(context, place, field, &constant, type_of<double>);
    curve = constant;
  }
  context.problems.add_known(place.path, {place.at(), flow_text(&curve, type_of<Curve>, ""), place.node != nullptr});
}

void read_value(Context& context, const Place& place, const Field& field, void* value, const Type& type) {
  switch (type.kind) {
    case Kind::section:
      return read_section(context, place, value, type);
    case Kind::list:
      return read_list(context, place, field, value, type);
    case Kind::optional:
      return read_optional(context, place, field, value, type);
    case Kind::curve:
      return read_curve(context, place, field, *static_cast<Curve*>(value));
    default:
      return read_single(context, place, field, value, type);
  }
}

/// Returns a text like "; did you mean hidden?" with a similar key of this section, or the same key of another section.
/// Returns an empty text if there is no such key.
std::string suggestion(const Unknown& unknown, const Problems& problems) {
  const std::vector<std::string_view> legal(unknown.legal.begin(), unknown.legal.end());
  if (const std::string_view near = closest(unknown.node->key, legal); !near.empty())
    return fmt::format("; did you mean {}?", near);
  for (const auto& [path, known] : problems.known())
    if (std::string_view(path).substr(path.rfind('.') + 1) == unknown.node->key)
      return fmt::format("; did you mean {}?", path);
  return "";
}

void report_unknown(const Context& context) {
  for (const Unknown& unknown : context.unknown) {
    const std::vector<std::string_view> legal(unknown.legal.begin(), unknown.legal.end());
    context.problems.report(
        unknown.node->at, "",
        fmt::format("{} is not a key{}; keys {}{}: {}", shown(child_path(unknown.section, unknown.node->key)),
                    suggestion(unknown, context.problems), unknown.section.empty() ? "at the top level" : "of ",
                    unknown.section, join(legal)));
  }
}

}  // namespace

void read(const Document& document, void* value, const Type& type, Problems& problems) {
  base::require(type.kind == Kind::section, "[config] the kind of a recipe's type is ", static_cast<int>(type.kind),
                "; expected a section (a struct)");
  Context context{problems};
  const Place root{&document.root, "", document.root.at};
  SectionReader(context, root).read(value, type);
  report_unknown(context);
}

}  // namespace hexad::config
