#include "framework/config/writer.h"

#include "framework/base/error.h"
#include "framework/config/scalar.h"
#include "framework/config/typed_recipe.h"

namespace hexad::config {
namespace {

class FlowWriter final : public Visitor {
 public:
  std::string take() { return "{" + out_ + "}"; }

 private:
  void visit(const Field& field, void* value, const Type& type) override {
    if (!out_.empty()) out_ += ", ";
    out_.append(field.key).append(": ").append(flow_text(value, type, field.unset_word));
  }

  std::string out_;
};

/// Writes sections and lists of sections as indented blocks, and every other value on a single line.
class BlockWriter final : public Visitor {
 public:
  explicit BlockWriter(size_t indent) : indent_(indent) {}

  static std::string text(void* section, const Type& type, size_t indent) {
    BlockWriter writer(indent);
    type.fields(section, writer);
    return std::move(writer.out_);
  }

 private:
  void visit(const Field& field, void* value, const Type& type) override {
    out_.append(indent_, ' ').append(field.key).append(":");
    write(field, value, type);
  }

  void write(const Field& field, void* value, const Type& type) {
    const bool filled = type.kind == Kind::section || (type.size && type.size(value) > 0);
    if (type.kind == Kind::optional && filled) return write(field, type.at(value, 0), *type.element);
    std::string block;
    if (type.kind == Kind::section) block = text(value, type, indent_ + 2);
    if (type.kind == Kind::list && filled && type.element->kind == Kind::section) block = items(value, type);
    if (block.empty())
      out_.append(" ").append(flow_text(value, type, field.unset_word)).append("\n");
    else
      out_.append("\n").append(block);
  }

  std::string items(void* list, const Type& type) const {
    std::string out;
    for (size_t i = 0; i < type.size(list); ++i) {
      std::string item = text(type.at(list, i), *type.element, indent_ + 4);
      base::require(!item.empty(), "[config] a list contains a struct without keys; expected at least one key");
      item[indent_ + 2] = '-';
      out += item;
    }
    return out;
  }

  size_t indent_;
  std::string out_;
};

std::string curve_text(const Curve& curve) {
  const auto text = [](const double& real) { return scalar_text(&real, type_of<double>); };
  if (curve.is_constant()) return text(curve.points.front().y);
  std::string out;
  for (const auto& [x, y] : curve.points)
    out.append(out.empty() ? "[[" : ", [").append(text(x)).append(", ").append(text(y)).append("]");
  return out + "]";
}

}  // namespace

std::string flow_text(void* value, const Type& type, std::string_view unset_word) {
  switch (type.kind) {
    case Kind::section: {
      FlowWriter writer;
      type.fields(value, writer);
      return writer.take();
    }
    case Kind::optional:
      return type.size(value) == 0 ? std::string(unset_word) : flow_text(type.at(value, 0), *type.element, unset_word);
    case Kind::list: {
      std::string out = "[";
      for (size_t i = 0; i < type.size(value); ++i)
        out.append(i == 0 ? "" : ", ").append(flow_text(type.at(value, i), *type.element, unset_word));
      return out + "]";
    }
    case Kind::curve:
      return curve_text(*static_cast<const Curve*>(value));
    default:
      return scalar_text(value, type);
  }
}

std::string write(void* value, const Type& type) { return BlockWriter::text(value, type, 0); }

}  // namespace hexad::config
