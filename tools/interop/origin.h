// Facts about an imported checkpoint that its export needs. They are stored next to the imported weights.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tools/interop/elements.h"
#include "tools/interop/file_stamp.h"
#include "tools/interop/tensor_map.h"

namespace hexad::interop {

/// Folder in an imported checkpoint with config.json, tokenizer files and origin.json.
inline constexpr std::string_view origin_folder_name = "hugging_face";

struct Origin {
  std::string folder;  // folder with config.json and the tokenizer files
  std::string config;  // text of config.json; for a larger model, the config.json of its text model
  ExpertLayout experts = ExpertLayout::separate;
  std::optional<Element> element;             // type of most tensors; nullopt: unknown
  std::map<std::string, Element> exceptions;  // types of the other tensors, by foreign name
  FileStamps files;  // stamps of config.json and the weight files, for changed_file(); empty in older imports
};

/// Returns the text of origin.json.
std::string origin_json(const Origin& origin);
/// Reads a folder: an import with origin.json, or any other folder with a config.json. Throws Error(data) that names
/// the file and the member if a file is damaged.
Origin read_origin(const std::string& folder);
/// True if the folder has a config.json.
bool has_config(const std::string& folder);

}  // namespace hexad::interop
