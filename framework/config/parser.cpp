#include "framework/config/parser.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "framework/base/error.h"
#include "framework/base/utf8.h"
#include "framework/config/words.h"

namespace hexad::config {
namespace {

using base::ExitCode;
using base::fail;
using base::utf8_length;

constexpr size_t deepest = 32;

class Source {
 public:
  Source(std::shared_ptr<const std::string> name, SourceKind kind) : name_(std::move(name)), kind_(kind) {}

  Position at(const YAML::Mark& mark) const {
    if (kind_ == SourceKind::command_line || mark.is_null()) return {name_, 0, 0};
    return {name_, mark.line + 1, mark.column + 1};
  }
  Position line(int line) const { return {name_, kind_ == SourceKind::file ? line : 0, 0}; }

 private:
  std::shared_ptr<const std::string> name_;
  SourceKind kind_;
};

/// Rejects invalid UTF-8 and control characters other than tabs and line ends. The library yaml-cpp would accept
/// invalid UTF-8, guess UTF-16 from zero bytes, and end a file at the byte 0x04.
void check_text(std::string_view text, const Source& source) {
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const size_t length = utf8_length(text.substr(i));
    if (length == 0)
      fail(ExitCode::usage, source.line(line).text(),
           fmt::format(": not UTF-8: byte 0x{:02x}; expected UTF-8 text", c));
    const bool lone_return = c == '\r' && (i + 1 == text.size() || text[i + 1] != '\n');
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f || lone_return)
      fail(ExitCode::usage, source.line(line).text(),
           fmt::format(": control character 0x{:02x}; expected plain text", c));
    if (c == '\n') ++line;
    i += length;
  }
}

/// Builds the tree from parser events, so it expands no aliases and needs no recursion.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, Budget& budget) : source_(source), budget_(budget) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (started_) refuse(mark, "a second YAML document begins here; a recipe must be one document");
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    if (expects_key()) refuse(mark, "a key is missing before ':'; expected `key: value`");
    insert({.kind = Node::Kind::null, .at = source_.at(mark)}, mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not allowed; write the value, or quote a text that begins with *");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const bool quoted = tag == "!";
    if (expects_key())
      open_key(mark, value);
    else
      insert({.kind = Node::Kind::scalar, .at = source_.at(mark), .text = value, .quoted = quoted}, mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Key {
    std::string text;
    Position at;
  };
  struct Frame {
    Node node;
    std::set<std::string> keys{};  // keys of a map so far, to detect duplicates
    std::optional<Key> key{};      // key of a map whose value has not been read yet
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string_view what) const {
    fail(ExitCode::usage, source_.at(mark).text(), ": ", what);
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      refuse(mark, "anchors (&name) are not allowed; remove the anchor, or quote a text that begins with &");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    // yaml-cpp marks plain nodes with "?" or nothing, and quoted and block scalars with "!".
    if (!tag.empty() && tag != "?" && tag != "!")
      refuse(mark,
             fmt::format("the tag `{}` is not allowed; remove it, or quote a text that begins with !", shown(tag)));
  }

  bool expects_key() const {
    return !frames_.empty() && frames_.back().node.kind == Node::Kind::map && !frames_.back().key;
  }

  void open_key(const YAML::Mark& mark, const std::string& key) {
    if (key.empty()) refuse(mark, "a key is empty; expected `key: value`");
    if (key == "<<") refuse(mark, "merge keys (<<) are not allowed; use include: other.yaml at the top level");
    if (!frames_.back().keys.insert(key).second)
      refuse(mark, fmt::format("`{}` is written twice in one section; remove one of the two", shown(key)));
    frames_.back().key = Key{key, source_.at(mark)};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    // yaml-cpp also accepts an unclosed bracket at the beginning of a key.
    if (expects_key()) refuse(mark, "a key must be a word, not a list or map; is a bracket left open?");
    if (frames_.size() == deepest) refuse(mark, fmt::format("nested deeper than {} levels, the maximum", deepest));
    frames_.push_back({{.kind = kind, .at = source_.at(mark)}});
  }

  void close() {
    Node node = std::move(frames_.back().node);
    frames_.pop_back();
    insert(std::move(node), YAML::Mark::null_mark());
  }

  void insert(Node node, const YAML::Mark& mark) {
    if (budget_.nodes == 0)
      refuse(mark, fmt::format("too many values; a recipe and its includes may have at most {}", Budget{}.nodes));
    --budget_.nodes;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = frames_.back();
    if (parent.key) {
      node.key = std::move(parent.key->text);
      node.at = std::move(parent.key->at);
      parent.key.reset();
    }
    parent.node.children.push_back(std::move(node));
  }

  const Source& source_;
  Budget& budget_;
  bool started_ = false;
  Node root_;
  std::vector<Frame> frames_;
};

// Returns a hint at the cause of a syntax error in line `line` of a file, counted from 0. The cause is a tab in the
// indentation, or a wrong indentation. The messages of yaml-cpp do not mention these causes. Returns an empty text for
// any other cause.
std::string hint_at_indentation(std::string_view text, int line, std::string_view problem) {
  for (int i = 0; i < line && !text.empty(); ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view blanks = text.substr(0, std::min(text.find_first_not_of(" \t"), text.size()));
  if (blanks.find('\t') != blanks.npos) return "; the indentation has a tab, but YAML allows only spaces there";
  if (problem != YAML::ErrorMsg::MAP_VALUE && problem != YAML::ErrorMsg::END_OF_MAP) return "";
  return "; keys of one section must begin in the same column, and a text with ': ' needs quotes";
}

}  // namespace

void require_plain_text(std::string_view text, const std::string& source) {
  check_text(text, {std::make_shared<const std::string>(source), SourceKind::command_line});
}

Node parse_yaml(std::string_view text, const std::shared_ptr<const std::string>& name, SourceKind kind,
                Budget& budget) {
  const Source source(name, kind);
  if (text.size() > budget.bytes)
    fail(ExitCode::usage, *name, ": has more than ", budget.bytes,
         " bytes; a recipe and its includes may have at most ", Budget{}.bytes, " bytes",
         budget.bytes < Budget{}.bytes
             ? fmt::format(", and the files read before have {}", Budget{}.bytes - budget.bytes)
             : "");
  budget.bytes -= text.size();
  check_text(text, source);
  TreeBuilder builder(source, budget);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {.at = source.line(1)};
    parser.HandleNextDocument(builder);  // rejects a second document
    return builder.take();
  } catch (const YAML::Exception& e) {
    const bool in_file = kind == SourceKind::file && !e.mark.is_null();
    fail(ExitCode::usage, source.at(e.mark).text(), ": not valid YAML: ", e.msg,
         in_file ? hint_at_indentation(text, e.mark.line, e.msg) : "");
  }
}

}  // namespace hexad::config
