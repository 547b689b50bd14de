// Chat template of a model: a text in the template language Jinja that writes conversations.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/data/digest.h"

namespace hexad::data {

struct ChatTemplate {
  std::string source;
  std::string path;  // file for messages, and the key if the file is tokenizer_config.json
  std::vector<std::pair<std::string, std::string>> tokens = {};  // special tokens: "bos_token" and its text, and others

  /// Returns a digest of everything that decides the text of a conversation.
  Digest digest() const;
};

/// Returns the paths of the files that read_chat_template() would read and that exist.
std::vector<std::string> chat_template_files(const std::string& folder);

/// Reads the chat template of the model in `folder`, which may also be a tokenizer file in it: chat_template.jinja or,
/// if it does not exist, chat_template of tokenizer_config.json. This is a text, or a list of named templates with one
/// that is called default. Throws Error(data) if there is none, or if a file is damaged.
ChatTemplate read_chat_template(const std::string& folder);

}  // namespace hexad::data
