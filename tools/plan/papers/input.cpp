#include "tools/plan/papers/input.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/config/scalar.h"
#include "framework/config/words.h"
#include "framework/config/writer.h"

namespace hexad::plan {
namespace {

class KeyLister final : public config::Visitor {
 public:
  explicit KeyLister(std::string path) : path_(std::move(path)) {}

  static std::string lines(const std::string& path, void* section, const config::Type& type) {
    KeyLister lister(path);
    type.fields(section, lister);
    return std::move(lister.out_);
  }

 private:
  void visit(const config::Field& field, void* value, const config::Type& type) override {
    const std::string path = config::child_path(path_, field.key);
    if (type.kind == config::Kind::section) {
      add(path, "", field.doc);
      out_ += lines(path, value, type);
    } else if (type.kind == config::Kind::optional && type.element->kind == config::Kind::section) {
      add(path, "optional", field.doc);
      type.resize(value, 1);
      out_ += lines(path, type.at(value, 0), *type.element);
    } else {
      add(path, standing(field, value, type), field.doc);
    }
  }

  void add(const std::string& path, const std::string& standing, std::string_view doc) {
    out_ += fmt::format("  {:<22} {:<13} {}\n", path, standing, doc);
  }

  static std::string standing(const config::Field& field, void* value, const config::Type& type) {
    if (type.kind == config::Kind::optional) return std::string(field.unset_word);
    const bool list = type.kind == config::Kind::list;
    const auto broken = [&](const config::Constraint& limit) {
      if (list) return limit.on_size() && !limit.holds(static_cast<long double>(type.size(value)));
      return !limit.holds(config::magnitude(value, type));
    };
    if (std::ranges::any_of(field.constraints, broken)) return "required";
    return config::flow_text(value, type, field.unset_word);
  }

  std::string path_;
  std::string out_;
};

}  // namespace

std::string list_keys(void* input, const config::Type& type) { return KeyLister::lines("", input, type); }

void refuse_written(config::Problems& problems, std::initializer_list<std::string_view> paths, std::string_view why) {
  for (const std::string_view path : paths) {
    const auto known = problems.known().find(path);
    if (known != problems.known().end() && known->second.written)
      problems.add(path, base::cat(why, "; remove this key"));
  }
}

void check_sizes(config::Problems& problems, std::string_view path, const config::Curve& curve) {
  if (problems.good({path}) && !curve.is_constant() && !(curve.points.front().x > 0))
    problems.add(path, "must start at a size above 0");
}

}  // namespace hexad::plan
