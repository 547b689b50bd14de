#include "framework/config/position_of.h"

namespace hexad::config {

std::string position_of(const Document& document, std::string_view path) {
  const Node* node = &document.root;
  std::string position;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    node = node->find(path.substr(0, dot));
    if (!node) break;
    position = node->at.text();
    path = dot == path.npos ? std::string_view() : path.substr(dot + 1);
  }
  return position;
}

}  // namespace hexad::config
