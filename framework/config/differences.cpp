#include <algorithm>

#include "framework/base/error.h"
#include "framework/config/typed_recipe.h"
#include "framework/config/words.h"
#include "framework/config/writer.h"

namespace hexad::config {
namespace {

/// Collects every leaf of a struct, in the order of its members. A list of structs has one entry for each leaf of its
/// elements; any other list is a single value.
class Flattener final : public Visitor {
 public:
  static std::vector<Setting> entries(void* value, const Type& type) {
    std::vector<Setting> out;
    Flattener("", out).add_section(value, type);
    return out;
  }

 private:
  Flattener(std::string path, std::vector<Setting>& out) : path_(std::move(path)), out_(out) {}

  void add_section(void* value, const Type& type) { type.fields(value, *this); }

  void visit(const Field& field, void* value, const Type& type) override {
    add(child_path(path_, field.key), field, value, type);
  }

  void add(const std::string& path, const Field& field, void* value, const Type& type) {
    if (type.kind == Kind::section) {
      Flattener(path, out_).add_section(value, type);
    } else if (type.kind == Kind::list && type.element->kind == Kind::section) {
      for (size_t i = 0; i < type.size(value); ++i)
        add(child_path(path, std::to_string(i)), field, type.at(value, i), *type.element);
    } else if (type.kind == Kind::optional && type.size(value) == 1) {
      add(path, field, type.at(value, 0), *type.element);
    } else {
      out_.push_back({path, flow_text(value, type, field.unset_word)});
    }
  }

  std::string path_;
  std::vector<Setting>& out_;
};

const std::string* value_of(const std::vector<Setting>& entries, const std::string& path) {
  const auto found = std::ranges::find(entries, path, &Setting::path);
  return found == entries.end() ? nullptr : &found->value;
}

}  // namespace

std::vector<Setting> settings(void* value, const Type& type) { return Flattener::entries(value, type); }

std::vector<std::string> differences(void* before, void* after, const Type& type) {
  const std::vector<Setting> old_entries = Flattener::entries(before, type),
                             new_entries = Flattener::entries(after, type);
  std::vector<std::string> out;
  for (const auto& [path, text] : old_entries) {
    const std::string* now = value_of(new_entries, path);
    if (!now || *now != text) out.push_back(path + ": " + text + " -> " + (now ? *now : "absent"));
  }
  for (const auto& [path, text] : new_entries)
    if (!value_of(old_entries, path)) out.push_back(path + ": absent -> " + text);
  return out;
}

}  // namespace hexad::config
