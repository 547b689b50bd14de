#include "tools/train/recipe/renamed_keys.h"

#include <deque>
#include <iterator>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/config/renames.h"

namespace hexad::train {

// Lists only keys that this version has renamed. The next version removes them from this list.
std::vector<std::string> rename_keys(config::Document& recipe) {
  std::vector<std::string> schedules{"schedule"};
  if (const config::Node* stages = recipe.root.find("stages"))
    for (size_t s = 0; s < stages->children.size(); ++s) schedules.push_back(base::cat("stages.", s, ".schedule"));
  std::deque<std::string> sections;
  std::vector<config::Rename> renames;
  for (const std::string& schedule : schedules) {
    const std::string_view moe = sections.emplace_back(schedule + ".moe");
    const std::string_view pipeline = sections.emplace_back(schedule + ".pipeline");
    const config::Rename of_schedule[] = {{moe, "cut", "chunk_by"},
                                          {moe, "parts", "chunks"},
                                          {moe, "spread", "esp_exchange"},
                                          {moe, "esp_exchange", "esp_exchange", {{"held", "replicated"}}},
                                          {moe, "restore", "memory_reuse", {{"keep", "none"}}},
                                          {moe, "products", "gemms"},
                                          {pipeline, "chunks", "virtual_stages"}};
    renames.insert(renames.end(), std::begin(of_schedule), std::end(of_schedule));
  }
  renames.push_back({"optim", "kind", "name"});
  return config::rename_keys(recipe, renames);
}

config::Document with_current_names(config::Document recipe, const std::function<void(const std::string&)>& warn) {
  for (const std::string& line : rename_keys(recipe)) warn(line);
  return recipe;
}

std::string rename_schedules(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {", cut ", ", chunk_by "},         {", parts ", ", chunks "},
      {", spread ", ", esp_exchange "},  {", esp_exchange held", ", esp_exchange replicated"},
      {", restore ", ", memory_reuse "}, {", products ", ", gemms "}};
  for (const auto& [before, now] : words)
    for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + now.size()))
      text.replace(at, before.size(), now);
  return text;
}

}  // namespace hexad::train
