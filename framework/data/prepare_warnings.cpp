#include "framework/data/prepare_warnings.h"

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/data/form_marks.h"

namespace hexad::data {
using namespace base;
namespace {

std::string percent(double share) { return fmt::format("{:.3g}%", 100 * share); }

// Adds a warning if the held-out part is too small for a meaningful loss. Also adds a warning if the share of this part
// in the text differs too much from the requested share.
void warn_of_heldout(const PrepareSummary& s, const PrepareOptions& options, std::vector<std::string>& warnings) {
  constexpr int64_t few_tokens = 2000;
  const PreparedPart& part = s.heldout;
  if (part.documents == 0) return;
  const bool chat = !options.chat_form.empty();  // true: conversations, which are not divided
  if (part.documents == 1 || part.tokens < few_tokens)
    warnings.push_back(
        cat("the held-out part has ", counted(part.documents, "document"), " with ", counted(part.tokens, "token"),
            " in total, too little for a meaningful held-out loss: give more ", chat ? "conversations or" : "text,",
            " a larger --heldout (", options.heldout, " now)",
            chat ? std::string() : cat(" or shorter documents (--split-bytes, ", present_limit(options.split), ")")));
  const double share = static_cast<double>(part.text_bytes) / static_cast<double>(part.text_bytes + s.train.text_bytes);
  if (share > 2 * options.heldout + 0.05)
    warnings.push_back(cat("the held-out part takes ", percent(share), " of the text, not the ",
                           percent(options.heldout), " that --heldout asks for: there are only ",
                           counted(part.documents + s.train.documents, "document"),
                           " to choose from; give more documents"));
  if (share < options.heldout / 2)
    warnings.push_back(
        cat("the held-out part takes ", percent(share), " of the text, not the ", percent(options.heldout),
            " that --heldout asks for: documents are chosen regardless of their length, and the long documents "
            "are in the training part",
            chat ? std::string() : cat("; --split-bytes (", present_limit(options.split), ") divides them")));
}

}  // namespace

std::vector<std::string> warnings_of(const PrepareSummary& s, const CorpusScan& scan, const PrepareOptions& options,
                                     const Tokenizer& tokenizer) {
  std::vector<std::string> warnings;
  if (!scan.unnamed_json.empty())
    warnings.push_back(cat(some_of(scan.unnamed_json), ": taken as text, but the first line is JSON with the key \"",
                           options.text_key, "\"; to make each line a document, rename the file to end in .jsonl"));
  if (!scan.untaken_json.empty())
    warnings.push_back(cat(some_of(scan.untaken_json),
                           ": taken as text, with brackets and quotes, because no object has the key \"",
                           options.text_key, "\"; ", scan.untaken_keys,
                           "; to make each object a document, name its key of text with --text-key"));
  if (!scan.damaged_json.empty())
    warnings.push_back(
        cat(some_of(scan.damaged_json),
            ": taken as text, because it is not valid JSON, although it begins like JSON and has the key "
            "\"",
            options.text_key, "\"; if a file is truncated or damaged, restore it"));
  if (const std::string left_out = tokenizer.left_out(); !left_out.empty())
    warnings.push_back(cat(options.tokenizer, ": the tokenizer ", left_out, ", and leaves them out of the text"));
  if (const std::string spelled = spelled_marks(options.chat_form, tokenizer); !spelled.empty())
    warnings.push_back(cat(options.tokenizer, ": the tokenizer ", spelled));
  for (const std::string& pattern : s.inputs.idle_patterns)
    warnings.push_back(cat(pattern, " matches no file; expected a pattern of files below --input"));
  InputFiles held_back;
  for (const SkippedFile& file : s.inputs.skipped)
    if (!file.remedy.empty()) held_back.skipped.push_back(file);
  for (const std::string& line : lines_of_skipped(held_back)) warnings.push_back("not taken: " + line);
  warn_of_heldout(s, options, warnings);
  return warnings;
}

}  // namespace hexad::data
