#include "framework/data/chat_template.h"

#include <array>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/base/path_problem.h"
#include "framework/config/words.h"
#include "framework/data/file.h"
#include "framework/data/jinja/limits.h"
#include "framework/data/text_check.h"
#include "framework/data/tokenizers/json_field.h"

namespace hexad::data {

using namespace base;
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* config_name = "tokenizer_config.json";
constexpr const char* template_name = "chat_template.jinja";
constexpr const char* tool_template_name = "additional_chat_templates/tool_use.jinja";
// Keys of tokenizer_config.json that are variables of templates.
constexpr std::array<const char*, 7> token_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

bool exists(const std::string& path) { return file_problem(path) != "no such file"; }

// Reads the templates that the list names "default" and "tool_use".
void read_list(const JsonField& list, ChatTemplate& found) {
  std::vector<std::string_view> names;
  bool has_default = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string& name = list.at(i)["name"].text();
    if (name == "default") found.source = list.at(i)["template"].text();
    if (name == "tool_use") found.tool_source = list.at(i)["template"].text();
    has_default = has_default || name == "default";
    names.push_back(name);
  }
  if (has_default) return;
  fail(ExitCode::data, list.place(), names.empty() ? " is an empty list" : " names only ",
       config::shown(config::join(names)), ", expected a template named default");
}

// Returns `path` if it is a folder, otherwise the folder of the file `path`.
fs::path folder_of(const std::string& path) {
  return file_problem(path) == "is a directory" ? fs::path(path) : fs::path(path).parent_path();
}

}  // namespace

Digest ChatTemplate::digest() const {
  Json all = {source, tokens};
  if (!tool_source.empty()) all.push_back(tool_source);
  return digest_of(all.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::vector<std::string> chat_template_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : {config_name, template_name, tool_template_name})
    if (const std::string path = (folder_of(folder) / name).string(); exists(path)) files.push_back(path);
  return files;
}

ChatTemplate read_chat_template(const std::string& folder) {
  if (!exists(folder))
    fail(ExitCode::data, folder, ": there is no such file or folder, expected a model's folder or tokenizer file");
  const fs::path where = folder_of(folder);
  const std::string config_path = (where / config_name).string(), path = (where / template_name).string();
  ChatTemplate found;
  if (exists(config_path)) {
    const Json json = Json::parse(read_file(config_path, largest_config), nullptr, /*allow_exceptions=*/false);
    if (!json.is_object())
      fail(ExitCode::data, config_path, ": is ", json.is_discarded() ? "not JSON" : base::json_kind(json),
           ", expected a JSON object");
    const JsonField config(config_path, json);
    for (const char* name : token_names)
      if (const auto token = config.find(name))
        found.tokens.emplace_back(name, token->json().is_object() ? (*token)["content"].text() : token->text());
    if (const auto field = config.find("chat_template"); field && !exists(path)) {
      found.path = cat(config_path, ": chat_template");
      found.tool_path = found.path + ", tool_use";
      if (field->json().is_array()) {
        read_list(*field, found);
      } else {
        found.source = field->text();
      }
    }
  }
  if (exists(path)) {
    found.source = read_file(path, jinja::largest_template);
    found.path = path;
    found.tool_path = (where / tool_template_name).string();
    found.tool_source = exists(found.tool_path) ? read_file(found.tool_path, jinja::largest_template) : "";
    for (const auto& [file, source] : {std::pair(&found.path, &found.source), {&found.tool_path, &found.tool_source}})
      if (const TextProblem problem = check_text(*source)) fail(ExitCode::data, *file, ": ", problem.what);
  }
  if (found.path.empty())
    fail(ExitCode::data, where.empty() ? "." : where.string(), ": has no chat template (", template_name,
         ", or chat_template in ", config_name, "), which --chat-form model needs; choose another --chat-form");
  return found;
}

}  // namespace hexad::data
