// Chat forms (also called chat templates): the marks that each family of models puts around the turns of a
// conversation.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hexad::data {

struct ChatRole {
  std::string_view role;    // system, user, assistant or tool
  std::string_view before;  // written before the text of a turn
  std::string_view end;     // written after the text; a training target after a learned answer
  std::string_view after;   // written after `end`; never a training target
};

/// Marks of tools and of their calls. Each tool and each call is written as JSON on one line.
struct ToolMarks {
  std::string_view before_tools, after_tools;  // around the lines of all tools, at the end of the first (system) turn
  std::string_view before_call, after_call;    // around the line of each call, at the end of the answer
  std::string_view arguments;                  // key of a call's arguments; the tool's name is under "name"
};

struct ChatForm {
  std::string_view name;
  std::string_view begin;               // written once, before the first turn
  std::span<const ChatRole> roles;      // the roles that this form can express
  std::optional<ToolMarks> tools = {};  // missing if the form cannot express tools

  /// Returns the marks of `role`; null if the form has no such role.
  const ChatRole* find(std::string_view role) const;
  /// Returns a string such as "system, user, assistant".
  std::string role_names() const;
};

/// Returns the names of the forms that can express tools, such as "plain, chatml, llama3, model".
std::string forms_with_tools();
/// Returns all forms except `model`, which a model's chat template defines. docs/data.md describes them.
std::span<const ChatForm> chat_forms();
/// Returns the form with this name. Throws Error(usage) that lists all names if the name is unknown.
const ChatForm& chat_form(std::string_view name);

}  // namespace hexad::data
