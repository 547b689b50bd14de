#include "framework/config/typed_recipe.h"

#include <utility>

#include "framework/config/words.h"

namespace hexad::config {
namespace {

std::vector<std::string> words_of(const Type& type, std::string_view unset_word) {
  std::vector<std::string> words;
  if (type.kind == Kind::boolean) words = {"true", "false"};
  for (const EnumName& entry : type.names) words.emplace_back(entry.name);
  if (type.kind == Kind::optional) {
    words = words_of(*type.element, unset_word);
    words.emplace_back(unset_word);
  }
  return words;
}

class Collector final : public Visitor {
 public:
  Collector(std::string path, std::vector<KeyWords>& out) : path_(std::move(path)), out_(out) {}

 private:
  void visit(const Field& field, void* value, const Type& type) override {
    const std::string path = child_path(path_, field.key);
    if (type.kind == Kind::section) {
      Collector below(path, out_);
      type.fields(value, below);
    } else if (auto words = words_of(type, field.unset_word); !words.empty()) {
      out_.push_back({path, std::move(words)});
    }
  }

  std::string path_;
  std::vector<KeyWords>& out_;
};

}  // namespace

std::vector<KeyWords> words_of_keys(void* value, const Type& type) {
  std::vector<KeyWords> all;
  Collector collector("", all);
  type.fields(value, collector);
  return all;
}

}  // namespace hexad::config
