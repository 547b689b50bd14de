#include <fmt/format.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/config/scalar.h"
#include "framework/config/typed_recipe.h"
#include "framework/config/words.h"
#include "framework/config/writer.h"

namespace hexad::config {
namespace {

std::string type_name(const Type& type, std::string_view unset_word) {
  switch (type.kind) {
    case Kind::boolean:
      return "true or false";
    case Kind::integer:
      return "integer";
    case Kind::byte_size:
      return "bytes (`512MiB`, `1.5GB`, `4096`)";
    case Kind::real:
      return "number";
    case Kind::text:
      return "text";
    case Kind::enumeration:
      return "word";
    case Kind::curve:
      return "number or list of [x, y]";
    case Kind::optional:
      return fmt::format("{} or `{}`", type_name(*type.element, unset_word), unset_word);
    case Kind::list:
      return "list of " + type_name(*type.element, unset_word);
    case Kind::section:
      return "section";
  }
  base::fail_invariant(base::cat("[config] the kind of a type is ", static_cast<int>(type.kind), "; expected a Kind"));
}

/// Returns the type of the values inside all optionals and lists, or `type` itself.
const Type& innermost(const Type& type) { return type.element ? innermost(*type.element) : type; }

std::string legal_values(const Field& field, const Type& type) {
  std::string out;
  for (const EnumName& entry : innermost(type).names) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", entry.name);
  for (const Constraint& limit : field.constraints) out += fmt::format("{}{}", out.empty() ? "" : ", ", limit.legal());
  return out;
}

/// True if every recipe must set the key, because its initial value violates the limits.
bool is_required(const Field& field, const void* value, const Type& type) {
  return std::ranges::any_of(field.constraints, [&](const Constraint& limit) {
    if (type.kind == Kind::list) return limit.on_size() && !limit.holds(static_cast<long double>(type.size(value)));
    return type.kind != Kind::optional && !limit.holds(magnitude(value, type));
  });
}

/// Returns `text` with escaped bars, because a bar would end the table cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == '|' ? "\\|" : std::string(1, c));
  return out;
}

class Documenter final : public Visitor {
 public:
  static std::string text(std::string_view path, std::string_view doc, void* section, const Type& type) {
    Documenter documenter(path);
    type.fields(section, documenter);
    std::string out;
    if (!path.empty()) out += fmt::format("## {}\n\n", path);
    if (!doc.empty()) out += fmt::format("{}\n\n", doc);
    if (!documenter.rows_.empty())
      out += "| key | type | default | legal | meaning |\n| --- | --- | --- | --- | --- |\n" + documenter.rows_ + "\n";
    return out + documenter.sections_;
  }

 private:
  explicit Documenter(std::string_view path) : path_(path) {}

  void visit(const Field& field, void* value, const Type& type) override {
    const std::string path = child_path(path_, field.key);
    if (innermost(type).kind == Kind::section) {
      if (type.kind != Kind::section) row(path, field, value, type);
      add_section(path, field.doc, value, type);
    } else {
      row(path, field, value, type);
    }
  }

  void row(std::string_view path, const Field& field, void* value, const Type& type) {
    const std::string initial =
        is_required(field, value, type) ? "required" : fmt::format("`{}`", flow_text(value, type, field.unset_word));
    rows_ += fmt::format("| `{}` | {} | {} | {} | {} |\n", path, type_name(type, field.unset_word), cell(initial),
                         cell(legal_values(field, type)), cell(field.doc));
  }

  /// Adds a section. A list or optional of structs is described by one element.
  void add_section(const std::string& path, std::string_view doc, void* value, const Type& type) {
    if (type.kind == Kind::section) {
      sections_ += text(path, doc, value, type);
      return;
    }
    type.resize(value, 1);
    add_section(type.kind == Kind::list ? child_path(path, "0") : path, doc, type.at(value, 0), *type.element);
  }

  std::string path_;
  std::string rows_;
  std::string sections_;
};

}  // namespace

std::string reference(void* value, const Type& type) { return Documenter::text("", "", value, type); }

}  // namespace hexad::config
