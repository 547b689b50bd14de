#include "tools/train/recipe/renamed_keys.h"

#include <string_view>
#include <utility>

#include "framework/config/renames.h"

namespace hexad::train {

// Lists only keys that this version has renamed. The next version removes them from this list.
std::vector<std::string> rename_keys(config::Document& recipe) {
  const config::Rename renames[] = {{"schedule.moe", "cut", "chunk_by"},
                                    {"schedule.moe", "parts", "chunks"},
                                    {"schedule.moe", "spread", "esp_exchange"},
                                    {"schedule.moe", "esp_exchange", "esp_exchange", {{"held", "replicated"}}},
                                    {"schedule.moe", "restore", "memory_reuse", {{"keep", "none"}}},
                                    {"schedule.moe", "products", "gemms"},
                                    {"optim", "kind", "name"}};
  return config::rename_keys(recipe, renames);
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
