#include "framework/config/renames.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/parsed_number.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

// Returns the child with key `name`, or the element of a list with index `name`; nullptr if there is none.
Node* child_of(Node& node, std::string_view name) {
  if (node.kind != Node::Kind::list) return node.find(name);
  const auto index = base::parsed_number<size_t>(name);
  return index && *index < node.children.size() ? &node.children[*index] : nullptr;
}

Node* section_of(Document& document, std::string_view path) {
  Node* node = &document.root;
  while (node && !path.empty()) {
    const size_t dot = path.find('.');
    node = child_of(*node, path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

bool same_source(const Node& a, const Node& b) {
  if (a.at.on_command_line() || b.at.on_command_line()) return a.at.on_command_line() && b.at.on_command_line();
  return a.at.source && b.at.source && *a.at.source == *b.at.source;
}

// Returns the later of two keys in a section. A key of the command line is later than a key of a file. Other keys are
// in the order of their sources.
Node* later(Node* a, Node* b) {
  if (a->at.on_command_line() != b->at.on_command_line()) return a->at.on_command_line() ? a : b;
  return std::max(a, b);
}

}  // namespace

std::vector<std::string> rename_keys(Document& document, std::span<const Rename> renames) {
  std::vector<std::string> lines, twice;
  for (const Rename& r : renames) {
    Node* section = section_of(document, r.section);
    if (!section) continue;
    const auto say = [&](const Node& at, const std::string& what, const std::string& now) {
      lines.push_back(
          fmt::format("{}: {} is now called {}; the next version will refuse the old name", at.at.text(), what, now));
    };
    const std::string now = child_path(r.section, r.now), before = child_path(r.section, r.before);
    Node* const given = section->find(r.now);
    if (Node* const old = section->find(r.before); old && r.before != r.now) {
      say(*old, before, now);
      old->key = r.now;
      if (given && same_source(*old, *given)) {
        twice.push_back(fmt::format("{}: {} is the old name of {}, which {} also gives; remove one of them",
                                    old->at.text(), before, now, given->at.text()));
      } else if (given) {
        const Node* const overruled = later(old, given) == old ? given : old;
        section->children.erase(section->children.begin() + (overruled - section->children.data()));
      }
    }
    Node* const value = section->find(r.now);
    if (!value) continue;
    for (const auto& [word, new_word] : r.words) {
      if (value->kind != Node::Kind::scalar || value->text != word) continue;
      value->text = new_word;
      say(*value, fmt::format("{}: {}", now, word), std::string(new_word));
      break;
    }
  }
  if (!twice.empty()) base::fail(base::ExitCode::usage, fmt::format("{}", fmt::join(twice, "\n")));
  return lines;
}

}  // namespace hexad::config
