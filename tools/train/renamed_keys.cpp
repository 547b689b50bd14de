#include "tools/train/renamed_keys.h"

#include "framework/config/renames.h"

namespace hexad::train {

// The next version forgets these, and takes what it renames itself.
std::vector<std::string> rename_keys(config::Document& recipe) {
  const config::Rename renames[] = {{"schedule.moe", "parts", "chunks"},
                                    {"schedule.moe", "spread", "esp_exchange"},
                                    {"schedule.moe", "restore", "memory_reuse", {{"keep", "none"}}}};
  return config::rename_keys(recipe, renames);
}

}  // namespace hexad::train
