// Conversations in the form that a model's own chat template writes.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "framework/data/chat_template.h"
#include "framework/data/conversation.h"
#include "framework/data/jinja/template.h"

namespace hexad::data {

class ModelForm final : public ConversationForm {
 public:
  /// Maximum number of turns. The work for a conversation grows with the square of its number of turns.
  static constexpr size_t max_turns = 1000;

  /// Parses the template. Throws Error(data) with the file and line if a part of the template is not supported. An
  /// unsupported template for conversations with tools is reported only when a conversation needs this template.
  explicit ModelForm(const ChatTemplate& source);

  /// Finds each learned answer by rendering two texts: the turns before the answer with the beginning of an answer
  /// (add_generation_prompt), and the turns up to the end of the answer. The answer, with its tool calls, is the text
  /// that the second rendering adds to the first. ChatTurn::other_texts are members of the turn's message. Returns a
  /// problem in these cases, and if the template throws an error:
  /// - There are more than max_turns turns, or a role is not supported.
  /// - The template does not contain the key of one of ChatTurn::other_texts.
  /// - The template leaves out the calls of an answer, or the texts of all learned answers.
  /// - The second rendering does not begin with the first, or later turns change the second rendering. The tokens of
  ///   the answer are then unknown.
  std::string write(const Conversation& conversation, Document& out) const override;
  std::string write_question(const Conversation& conversation, Document& out) const override;
  std::string end_of_answer() const override;
  std::string missing_role_text(std::string_view role) const override;

 private:
  // Returns a problem if the key of one of ChatTurn::other_texts does not occur in `form`; otherwise an empty string.
  std::string unread_text(const jinja::Template& form, std::span<const ChatTurn> turns) const;
  // True if `form` also writes `text` for these turns without the calls of the last turn.
  bool writes_without_calls(const jinja::Template& form, std::span<const ChatTurn> turns, const jinja::Value& tools,
                            const jinja::Text& text) const;
  // Returns the template that writes the conversation: tool_template_ if it exists and the conversation lists tools,
  // otherwise template_. Throws Error(data) if the conversation lists tools and tool_problem_ is not empty.
  const jinja::Template& template_of(const Conversation& conversation) const;
  // Returns the mark that `form` writes after an answer. Throws Error(data) if `form` refuses an example.
  std::string end_of(const jinja::Template& form, const jinja::Value& tools) const;
  // Renders `form` with these messages. `tools` is a list, or none.
  jinja::Text render(const jinja::Template& form, std::span<const jinja::Value> messages, const jinja::Value& tools,
                     bool begins_answer) const;

  using Words = std::set<std::string, std::less<>>;
  static Words words_of(std::string_view source);

  jinja::Template template_;
  std::optional<jinja::Template> tool_template_;  // for conversations that list tools; missing: see template_of()
  Words words_, tool_words_;                      // names and other words in each template
  std::string tool_problem_;                      // reason why tool_template_ is unusable; otherwise empty
  jinja::Variables tokens_;                       // special tokens
  std::string end_, tool_end_;                    // texts that end an answer without calls; empty: not known
};

}  // namespace hexad::data
