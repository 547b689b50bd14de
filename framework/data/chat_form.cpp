#include "framework/data/chat_form.h"

#include <algorithm>
#include <array>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/conversation.h"

namespace hexad::data {
namespace {

constexpr auto raw = std::to_array<ChatRole>({
    {"system", "", "", ""},
    {"user", "", "", ""},
    {"assistant", "", "", ""},
    {"tool", "", "", ""},
});
constexpr auto plain = std::to_array<ChatRole>({
    {"system", "system: ", "\n", ""},
    {"user", "user: ", "\n", ""},
    {"assistant", "assistant: ", "\n", ""},
    {"tool", "tool: ", "\n", ""},
});
constexpr auto chatml = std::to_array<ChatRole>({
    {"system", "<|im_start|>system\n", "<|im_end|>", "\n"},
    {"user", "<|im_start|>user\n", "<|im_end|>", "\n"},
    {"assistant", "<|im_start|>assistant\n", "<|im_end|>", "\n"},
    {"tool", "<|im_start|>tool\n", "<|im_end|>", "\n"},
});
constexpr auto llama3 = std::to_array<ChatRole>({
    {"system", "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", ""},
    {"user", "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", ""},
    {"assistant", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", ""},
    {"tool", "<|start_header_id|>ipython<|end_header_id|>\n\n", "<|eot_id|>", ""},
});
constexpr auto mistral = std::to_array<ChatRole>({
    {"system", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", ""},
    {"user", "[INST]", "[/INST]", ""},
    {"assistant", "", "</s>", ""},
});
constexpr auto gemma = std::to_array<ChatRole>({
    {"user", "<start_of_turn>user\n", "<end_of_turn>", "\n"},
    {"assistant", "<start_of_turn>model\n", "<end_of_turn>", "\n"},
});

constexpr auto forms = std::to_array<ChatForm>({
    {"plain", "", plain, ToolMarks{"tools:\n", "", "call: ", "", "arguments"}},
    {"raw", "", raw},
    {"chatml", "", chatml, ToolMarks{"<tools>\n", "\n</tools>", "<tool_call>\n", "\n</tool_call>", "arguments"}},
    {"llama3", "<|begin_of_text|>", llama3, ToolMarks{"", "", "", "", "parameters"}},
    {"mistral", "<s>", mistral},
    {"gemma", "<bos>", gemma},
});

}  // namespace

const ChatRole* ChatForm::find(std::string_view role) const {
  const auto found = std::ranges::find(roles, role, &ChatRole::role);
  return found == roles.end() ? nullptr : &*found;
}

std::string ChatForm::role_names() const {
  std::vector<std::string_view> names;
  for (const ChatRole& row : roles) names.push_back(row.role);
  return config::join(names);
}

std::string forms_with_tools() {
  std::vector<std::string_view> names;
  for (const ChatForm& form : forms)
    if (form.tools) names.push_back(form.name);
  names.push_back(model_form_name);
  return config::join(names);
}

std::span<const ChatForm> chat_forms() { return forms; }

const ChatForm& chat_form(std::string_view name) {
  const auto found = std::ranges::find(forms, name, &ChatForm::name);
  if (found != forms.end()) return *found;
  std::vector<std::string> names;
  for (const ChatForm& form : forms) names.emplace_back(form.name);
  names.emplace_back(model_form_name);
  base::fail(base::ExitCode::usage, "--chat-form ", config::shown(name),
             " is unknown; known forms: ", config::nearest_first(name, std::move(names)));
}

}  // namespace hexad::data
