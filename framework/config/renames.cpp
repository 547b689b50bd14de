#include "framework/config/renames.h"

#include <fmt/format.h>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

Node* section_of(Document& document, std::string_view path) {
  Node* node = &document.root;
  while (node && !path.empty()) {
    const size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

}  // namespace

std::vector<std::string> rename_keys(Document& document, std::span<const Rename> renames) {
  std::vector<std::string> lines;
  for (const Rename& r : renames) {
    Node* section = section_of(document, r.section);
    if (!section) continue;
    const auto say = [&](const Node& at, const std::string& what, const std::string& now) {
      lines.push_back(
          fmt::format("{}: {} is called {} now; the next version will not know it", at.at.text(), what, now));
    };
    const std::string now = child_path(r.section, r.now), before = child_path(r.section, r.before);
    Node* const kept = section->find(r.now);
    if (Node* const old = section->find(r.before); old && r.before != r.now) {
      if (kept)
        base::fail(base::ExitCode::usage, old->at.text(), ": ", before, " is the old name of ", now, ", which ",
                   kept->at.text(), " gives, too; leave one of them out");
      old->key = r.now;
      say(*old, before, now);
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
  return lines;
}

}  // namespace hexad::config
