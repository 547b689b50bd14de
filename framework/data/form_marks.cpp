#include "framework/data/form_marks.h"

#include <algorithm>
#include <vector>

#include "framework/base/error.h"
#include "framework/config/words.h"
#include "framework/data/chat_form.h"
#include "framework/data/conversation.h"

namespace hexad::data {
namespace {

// Adds the parts <...> and [...] of a text that are not in `marks` yet.
void add_marks(std::string_view text, std::vector<std::string_view>& marks) {
  for (size_t begin = text.find_first_of("<["); begin != text.npos;) {
    const size_t end = std::min(text.find(text[begin] == '<' ? '>' : ']', begin), text.size() - 1);
    const std::string_view mark = text.substr(begin, end + 1 - begin);
    if (std::ranges::find(marks, mark) == marks.end()) marks.push_back(mark);
    begin = text.find_first_of("<[", end + 1);
  }
}

bool has_token(const Tokenizer& tokenizer, std::string_view mark) {
  return std::ranges::any_of(tokenizer.encode_with_special(mark), [&](int32_t id) {
    return tokenizer.bytes_of(id) == mark || tokenizer.special_text(id) == mark;
  });
}

}  // namespace

std::string spelled_marks(std::string_view form, const Tokenizer& tokenizer) {
  if (form.empty() || form == model_form_name || !tokenizer.contents().source) return {};
  const ChatForm& named = chat_form(form);
  std::vector<std::string_view> marks;
  add_marks(named.begin, marks);
  for (const ChatRole& role : named.roles)
    for (const std::string_view text : {role.before, role.end, role.after}) add_marks(text, marks);
  std::erase_if(marks, [&](std::string_view mark) { return has_token(tokenizer, mark); });
  if (marks.empty()) return {};
  return base::cat("has no token for ", config::join(marks), ", so --chat-form ", form, " spells ",
                   marks.size() == 1 ? "it" : "them",
                   " as text; choose the form of the tokenizer's model, or --chat-form ", model_form_name,
                   " with its chat template");
}

}  // namespace hexad::data
