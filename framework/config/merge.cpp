#include "framework/config/merge.h"

#include <algorithm>
#include <utility>

namespace hexad::config {

Node& move_to_end(Node& map, Node& child) {
  std::rotate(&child, &child + 1, map.children.data() + map.children.size());
  return map.children.back();
}

void merge(Node& under, Node over) {
  if (over.kind == Node::Kind::null && under.kind == Node::Kind::map) return;
  if (over.kind != Node::Kind::map || under.kind != Node::Kind::map) {
    under = std::move(over);
    return;
  }
  under.at = over.at;
  for (Node& child : over.children) {
    if (Node* same = under.find(child.key))
      merge(move_to_end(under, *same), std::move(child));
    else
      under.children.push_back(std::move(child));
  }
}

}  // namespace hexad::config
