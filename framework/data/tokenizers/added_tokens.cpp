#include "framework/data/tokenizers/added_tokens.h"

#include <algorithm>

#include <unicode/uchar.h>

#include "framework/data/tokenizers/code_point.h"

namespace hexad::data {
namespace {

bool is_word(CodePoint c) {
  const auto character = static_cast<UChar32>(c.value);
  const uint32_t category = U_GET_GC_MASK(character);
  const bool joiner = c.value == 0x200c || c.value == 0x200d;
  return joiner || u_isUAlphabetic(character) != 0 || (category & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
  const bool left = begin == 0 || !is_word(last_code_point(text.substr(0, begin)));
  const bool right = end == text.size() || !is_word(code_point_at(text.substr(end)));
  return left && right;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& t) { return t.text.empty(); });
  std::ranges::stable_sort(tokens_, std::greater(), [](const AddedToken& t) { return t.text.size(); });
  has_ordinary_ = std::ranges::any_of(tokens_, [](const AddedToken& t) { return !t.special; });
  for (size_t i = 0; i < tokens_.size(); ++i)
    by_byte_[static_cast<unsigned char>(tokens_[i].text[0])].push_back(static_cast<uint32_t>(i));
}

bool AddedTokens::have_special() const { return std::ranges::any_of(tokens_, &AddedToken::special); }

bool AddedTokens::have_special_in(std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i)
    for (const uint32_t t : beginning_with(text[i]))
      if (tokens_[t].special && text.substr(i).starts_with(tokens_[t].text)) return true;
  return false;
}

const AddedToken* AddedTokens::token_at(std::string_view text, size_t at, const ByteRanges& trusted,
                                        size_t& after) const {
  after = at + 1;
  for (const uint32_t t : beginning_with(text[at])) {
    const AddedToken& token = tokens_[t];
    if (!text.substr(at).starts_with(token.text)) continue;
    const size_t end = at + token.text.size();
    if (!token.special || trusted.contains(at, end)) {
      after = end;
      return &token;
    }
    if (!trusted.overlaps(at, end)) {
      after = end;
      return nullptr;
    }
    // Only a part of the token is trusted. A shorter token may be in the trusted part.
  }
  return nullptr;
}

void AddedTokens::split(std::string_view text, const ByteRanges& trusted,
                        const std::function<void(std::string_view)>& on_text,
                        const std::function<void(int32_t)>& on_token) const {
  size_t done = 0;
  const bool finds = trusted.empty() ? has_ordinary_ : !tokens_.empty();
  for (size_t i = 0; i < text.size() && finds;) {
    size_t begin = i;
    const AddedToken* token = token_at(text, begin, trusted, i);
    if (token == nullptr) continue;
    size_t end = i;
    if (token->single_word && !stands_alone(text, begin, end)) continue;
    while (token->strip_left && begin > done && is_white_space(last_code_point(text.substr(0, begin))))
      begin -= last_code_point(text.substr(0, begin)).bytes;
    while (token->strip_right && end < text.size() && is_white_space(code_point_at(text.substr(end))))
      end += code_point_at(text.substr(end)).bytes;
    if (begin > done) on_text(text.substr(done, begin - done));
    on_token(token->id);
    done = end;  // can decrease: strip_right of the previous token may have taken white space that contains this token
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace hexad::data
