// Conversations with the marks of a named form.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "framework/data/chat_form.h"
#include "framework/data/conversation.h"

namespace hexad::data {

class NamedForm final : public ConversationForm {
 public:
  /// Uses the marks of `form`, which must outlive this object.
  explicit NamedForm(const ChatForm& form) : form_(form) {}

  std::string write(const Conversation& conversation, Document& out) const override;
  std::string write_question(const Conversation& conversation, Document& out) const override;
  std::string end_of_answer() const override;
  std::string missing_role_text(std::string_view role) const override;

 private:
  // Appends a turn. `tools` are listed at the end of the turn. Returns a problem like write().
  std::string write_turn(const ChatTurn& turn, std::span<const jinja::Value> tools, Document& out) const;

  const ChatForm& form_;
};

}  // namespace hexad::data
