// Configs of the golden models, and the recipe keys into which read_config() converts them.
#pragma once

#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/config_json.h"

namespace hexad::tests {

using namespace base;
using namespace interop;

/// Returns the config.json of the golden model of a family.
inline Json golden_config(const std::string& family) {
  return Json::parse(read_text(golden_folder(family) + "/config.json"));
}

inline ModelKeys keys_of_config(const Json& config) { return read_config(config.dump(), "config.json").keys; }

/// Returns the message that refuses the config.
inline std::string refusal(const Json& config) {
  return message_of(ExitCode::data, [&] { read_config(config.dump(), "config.json"); });
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), text.npos) << text << "\ndoes not contain: " << part;
}

}  // namespace hexad::tests
