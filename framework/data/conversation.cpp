#include "framework/data/conversation.h"

#include "framework/base/error.h"
#include "framework/data/chat_form.h"
#include "framework/data/model_form.h"
#include "framework/data/named_form.h"

namespace hexad::data {

std::string place_of(const ChatTurn& turn) {
  return turn.number == 0 ? "the key \"system\"" : base::cat("turn ", turn.number);
}

std::shared_ptr<const ConversationForm> conversation_form(std::string_view name, const std::string& folder) {
  if (name == model_form_name) return std::make_shared<ModelForm>(read_chat_template(folder));
  return std::make_shared<NamedForm>(chat_form(name));
}

}  // namespace hexad::data
