#include "framework/data/tokenizers/pre_tokenizers.h"

#include <array>
#include <utility>

#include "framework/data/tokenizers/metaspace.h"

namespace hexad::data {
namespace {

constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

struct TextPart {
  size_t begin, end;
  bool match;
};

// Appends the parts of a piece to a list: the matches, and the texts between them. Joins or removes parts according to
// the SplitBehavior.
class Parts {
 public:
  Parts(SplitBehavior behavior, const Piece& piece, PieceList& out) : behavior_(behavior), piece_(piece), out_(out) {}

  void add(TextPart part) {
    using enum SplitBehavior;
    if (part.begin == part.end) return;
    const bool joins = has_last_ && ((behavior_ == merged_with_previous && part.match && !last_.match) ||
                                     (behavior_ == merged_with_next && last_.match && !part.match) ||
                                     (behavior_ == contiguous && last_.match == part.match));
    if (joins) {
      // After a match is joined to the previous text, the part counts as a match. The next match is therefore not
      // joined to this part.
      last_ = {last_.begin, part.end, part.match};
      return;
    }
    finish();
    last_ = part;
    has_last_ = true;
  }
  void finish() {
    if (has_last_ && !(behavior_ == SplitBehavior::removed && last_.match))
      out_.pieces.push_back(
          {piece_.text.substr(last_.begin, last_.end - last_.begin), piece_.first && last_.begin == 0});
    has_last_ = false;
  }

 private:
  SplitBehavior behavior_;
  const Piece& piece_;
  PieceList& out_;
  TextPart last_{};
  bool has_last_ = false;
};

class RegexSplitter final : public PreTokenizer {
 public:
  RegexSplitter(Regex regex, RegexSplit options) : regex_(std::move(regex)), options_(options) {}

  void split(const Piece& piece, PieceList& out) const override {
    Parts parts(options_.behavior, piece, out);
    size_t done = 0;
    regex_.for_each_match(piece.text, [&](size_t begin, size_t end) {
      parts.add({done, begin, options_.invert});
      if (begin == end) parts.finish();  // an empty match only divides the text
      parts.add({begin, end, !options_.invert});
      done = end;
    });
    parts.add({done, piece.text.size(), options_.invert});
    parts.finish();
  }

 private:
  Regex regex_;
  RegexSplit options_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceList& out) const override {
    const bool has = piece.text.starts_with(' ');
    out.pieces.push_back({has ? piece.text : out.keep(std::string(" ").append(piece.text)), piece.first});
  }
};

std::string escaped_pattern(std::string_view literal) {
  std::string pattern;
  for (const char c : literal) {
    if (std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

SplitBehavior behavior_of(const JsonField& json, std::string_view otherwise) {
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> names{
      {{"Isolated", SplitBehavior::isolated},
       {"Removed", SplitBehavior::removed},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  const std::string name = json.text("behavior", otherwise);
  for (const auto& [known, behavior] : names)
    if (known == name) return behavior;
  json.fail_unsupported(name.empty() ? " has no behavior" : base::cat(" has the behavior '", name, "'"),
                        ", expected Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

// Collects the steps of a pre-tokenizer. A pre-tokenizer of type Sequence has several steps.
class StepReader {
 public:
  void read(const JsonField& json, int depth) {
    const std::string type = json["type"].text();
    json.require_depth(depth);
    if (result_.byte_level && type != "Sequence")
      json.fail_unsupported(" comes after ByteLevel, expected ByteLevel to be last");
    if (type == "Sequence") {
      const JsonField list = json["pretokenizers"];
      for (size_t i = 0; i < list.size(); ++i) read(list.at(i), depth + 1);
    } else if (type == "ByteLevel") {
      if (json.flag("add_prefix_space", true)) result_.steps.push_back(std::make_unique<PrefixSpace>());
      if (json.flag("use_regex", true)) add(gpt2_pattern, json);
      result_.byte_level = true;
    } else if (type == "Split") {
      split(json);
    } else if (type == "Metaspace") {
      result_.steps.push_back(read_metaspace(json));
    } else if (type == "Digits") {
      add(json.flag("individual_digits", false) ? "\\p{N}" : "\\p{N}+", json);
    } else if (type == "Punctuation") {
      add(punctuation, json, {behavior_of(json, "Isolated"), false});
    } else if (type == "Whitespace") {
      add(words_and_others, json, {SplitBehavior::removed, true});
    } else if (type == "WhitespaceSplit") {
      add("\\s", json, {SplitBehavior::removed, false});
    } else {
      json.fail_unsupported(
          " is of type '", type,
          "', expected ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit or Sequence");
    }
  }
  PreTokenizers result() { return std::move(result_); }

 private:
  static constexpr std::string_view punctuation = R"([\p{P}$+<=>\^`|~])";
  // Zero-width joiners belong to words here, although \w does not match them.
  static constexpr std::string_view words_and_others = R"([\w\x{200C}\x{200D}]+|[^\w\x{200C}\x{200D}\s]+)";

  void add(std::string_view pattern, const JsonField& json, RegexSplit options = {}) {
    result_.steps.push_back(make_regex_split(Regex(pattern, json.place(), RegexDialect::oniguruma), options));
  }
  void split(const JsonField& json) {
    const JsonField pattern = json["pattern"];
    const RegexSplit options{behavior_of(json, ""), json.flag("invert", false)};
    const auto literal = pattern.find("String");
    const JsonField text = literal ? *literal : pattern["Regex"];
    if (text.text().empty()) text.fail(" is empty, expected at least one character");
    result_.steps.push_back(make_regex_split(
        Regex(literal ? escaped_pattern(text.text()) : text.text(), text.place(), RegexDialect::oniguruma), options));
  }

  PreTokenizers result_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_regex_split(Regex regex, RegexSplit options) {
  return std::make_unique<RegexSplitter>(std::move(regex), options);
}

PieceList PreTokenizers::split(std::string_view text, bool first) const {
  PieceList in;
  in.pieces.push_back({text, first});
  for (const auto& step : steps) {
    PieceList out;
    out.changed = std::move(in.changed);  // pieces refer to these texts, which keep their addresses
    out.pieces.reserve(in.pieces.size() + text.size() / 8);
    for (const Piece& piece : in.pieces) step->split(piece, out);
    in = std::move(out);
  }
  return in;
}

PreTokenizers read_pre_tokenizers(const JsonField& json) {
  StepReader reader;
  reader.read(json, 0);
  return reader.result();
}

}  // namespace hexad::data
