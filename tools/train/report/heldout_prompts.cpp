#include "tools/train/report/samples.h"

#include <algorithm>

#include "framework/base/utf8.h"

namespace hexad::train {
namespace {

constexpr size_t max_bytes = 40;
constexpr std::string_view blanks = " \t\r\n";

// Piece of a document. The first and the last word of a piece may be incomplete.
struct TextPiece {
  std::string text;
  bool begins, ends;  // true if the piece contains the beginning or the end of its document
};

// Returns the first whole words of a piece, at most forty bytes. If the piece has no blank, returns at most forty bytes
// of whole characters.
std::string first_words(const TextPiece& piece) {
  std::string_view text = piece.text;
  bool ends = piece.ends;
  while (!text.empty() && base::utf8_length(text) == 0) text.remove_prefix(1);
  if (const size_t blank = text.find_first_of(blanks); !piece.begins && blank != text.npos) text.remove_prefix(blank);
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(blanks)));
  if (text.size() > max_bytes) text = text.substr(0, max_bytes), ends = false;
  if (const size_t blank = text.find_last_of(blanks); !ends && blank != text.npos) text = text.substr(0, blank);
  text = text.substr(0, text.find_last_not_of(blanks) + 1);
  std::string words;
  for (size_t length = 0; !text.empty() && (length = base::utf8_length(text)) > 0; text.remove_prefix(length))
    words += text.substr(0, length);
  return words;
}

// Returns the first words of the text of `ids`, up to the end of the document.
std::string prompt_from(std::span<const int32_t> ids, bool begins, const data::Tokenizer& tokenizer) {
  const auto end = std::ranges::find(ids, tokenizer.end_of_document());
  const auto document = ids.first(end - ids.begin());
  const auto some = document.first(std::min(document.size(), 4 * max_bytes));
  return first_words({tokenizer.decode(some), begins, end != ids.end() && some.size() == document.size()});
}

// Returns a prompt from the first document that begins in sequence `first` or in one of the next 63 sequences. If there
// is no such document, or if `first` is 0, returns the beginning of the text of sequence `first`.
std::string prompt_near(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t first) {
  constexpr int64_t searched = 64;
  // Reads two sequences, because a document may extend from one sequence into the next.
  const auto two_from = [&](int64_t i) { return heldout.batch(i, std::min<int64_t>(2, heldout.size() - i)).ids; };
  for (int64_t i = first; first > 0 && i < std::min(first + searched, heldout.size()); ++i) {
    const std::vector<int32_t> ids = two_from(i);
    const auto end = std::find(ids.begin(), ids.begin() + heldout.context(), tokenizer.end_of_document());
    const size_t begin = end - ids.begin() + 1;
    if (begin > static_cast<size_t>(heldout.context())) continue;
    if (std::string prompt = prompt_from(std::span(ids).subspan(begin), true, tokenizer); !prompt.empty())
      return prompt;
  }
  return prompt_from(two_from(first), first == 0, tokenizer);
}

}  // namespace

std::vector<std::string> heldout_prompts(const data::Source& heldout, const data::Tokenizer& tokenizer, int64_t count) {
  std::vector<std::string> prompts;
  for (int64_t i = 0; i < std::min(count, heldout.size()); ++i) {
    std::string prompt = prompt_near(heldout, tokenizer, i * heldout.size() / count);
    if (!prompt.empty() && std::ranges::find(prompts, prompt) == prompts.end()) prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace hexad::train
