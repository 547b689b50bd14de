// Chat template of a model: a text in the template language Jinja that writes conversations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

struct ChatTemplate {
  std::string source;
  // Location of the template for error messages: the file and, in tokenizer_config.json, the key.
  std::string path;
  std::vector<std::pair<std::string, std::string>> tokens = {};  // special tokens, such as bos_token: name and text
  // The template for conversations that list tools, and the location of this template for error messages. `source` also
  // writes these conversations if `tool_source` is empty.
  std::string tool_source = {}, tool_path = {};

  /// Returns a digest of everything that determines the text of a conversation.
  Digest digest() const;
};

/// Returns the paths of the existing files that may contain templates for read_chat_template().
std::vector<std::string> chat_template_files(const std::string& folder);

/// Reads the chat template of the model in `folder`. `folder` may also be the path of a tokenizer file of the model.
/// Reads chat_template.jinja and, for conversations with tools, additional_chat_templates/tool_use.jinja if it exists.
/// Reads the key chat_template of tokenizer_config.json if chat_template.jinja does not exist. The value of this key is
/// a text or a list of named templates. The list must contain the template "default" and may contain "tool_use". Throws
/// Error(data) if there is no template, or if a file is damaged.
ChatTemplate read_chat_template(const std::string& folder);

}  // namespace hexad::data
