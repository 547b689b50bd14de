#include "framework/data/tokenizers/metaspace.h"

#include "framework/data/tokenizers/normalizers.h"

namespace hexad::data {
namespace {

enum class Prepend : uint8_t { always, first, never };

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  void split(const Piece& piece, PieceList& out) const override {
    std::string text(piece.text);
    replace_all(text, " ", replacement_);
    const bool wants = prepend_ == Prepend::always || (prepend_ == Prepend::first && piece.first);
    if (wants && !text.starts_with(replacement_)) text.insert(0, replacement_);
    const std::string_view kept = out.keep(std::move(text));
    if (!split_) return out.pieces.push_back({kept, piece.first});
    size_t begin = 0;
    for (size_t at = kept.find(replacement_); at != kept.npos; at = kept.find(replacement_, at + replacement_.size())) {
      if (at > begin) out.pieces.push_back({kept.substr(begin, at - begin), piece.first && begin == 0});
      begin = at;
    }
    if (begin < kept.size()) out.pieces.push_back({kept.substr(begin), piece.first && begin == 0});
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace(const JsonField& json) {
  const std::string replacement = json.text("replacement", metaspace);
  if (replacement.empty()) json["replacement"].fail(" is empty, expected one character");
  // Older versions of Hugging Face's tokenizers library write add_prefix_space instead of prepend_scheme.
  const std::string scheme = json.text("prepend_scheme", json.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    json["prepend_scheme"].fail_unsupported(" is '", scheme, "', expected always, first or never");
  const Prepend prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
  return std::make_unique<Metaspace>(replacement, prepend, json.flag("split", true));
}

}  // namespace hexad::data
