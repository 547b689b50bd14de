#include "framework/data/tokenizers/unigram_model.h"

#include <algorithm>
#include <limits>

#include "framework/data/tokenizers/code_point.h"
#include "framework/data/tokenizers/pair_table.h"

namespace hexad::data {
namespace {

// Difference between the lowest score and the score of an unknown character. SentencePiece uses the same difference.
constexpr double unknown_penalty = 10;

class Unigram final : public TextModel {
 public:
  explicit Unigram(UnigramParts parts) : parts_(std::move(parts)) {
    double lowest = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < parts_.pieces.size(); ++id) {
      lowest = std::min(lowest, parts_.pieces[id].score);
      if (parts_.pieces[id].hidden) continue;
      int32_t node = 0;
      for (const char c : parts_.pieces[id].text) node = child_of(node, static_cast<unsigned char>(c));
      ids_[node] = static_cast<int32_t>(id);
    }
    unknown_score_ = lowest - unknown_penalty;
  }

  void encode(std::string_view piece, PieceCache& cache, std::vector<int32_t>& ids) const override {
    cache.append(piece, ids, [&] { best_path(piece, ids); });
  }
  int32_t id_of_byte(unsigned char byte) const override { return parts_.bytes[byte]; }

 private:
  // Best path to a position: the sum of its scores, and the beginning and id of its last token.
  struct Step {
    double score = 0;
    size_t begin = 0;
    int32_t id = -1;  // -1: the position has not been reached
  };
  struct Token {
    size_t begin, end;
    int32_t id;
  };

  int32_t child_of(int32_t node, int32_t byte) {
    if (const PairTable::Value* child = children_.find(node, byte)) return child->id;
    const auto made = static_cast<int32_t>(ids_.size());
    children_.set(node, byte, {0, made});
    ids_.push_back(-1);
    return made;
  }

  void best_path(std::string_view piece, std::vector<int32_t>& ids) const {
    std::vector<Step> steps(piece.size() + 1);
    for (size_t begin = 0; begin < piece.size();) {
      const size_t character = code_point_at(piece.substr(begin)).bytes;
      const double score = steps[begin].score;
      const auto reach = [&](size_t end, double with, int32_t id) {
        Step& step = steps[end];
        if (step.id < 0 || with > step.score) step = {with, begin, id};
      };
      bool single = false;
      int32_t node = 0;
      for (size_t end = begin; end < piece.size();) {
        const PairTable::Value* child = children_.find(node, static_cast<unsigned char>(piece[end]));
        if (child == nullptr) break;
        node = child->id;
        ++end;
        if (ids_[node] < 0) continue;
        reach(end, score + parts_.pieces[ids_[node]].score, ids_[node]);
        single = single || end - begin == character;
      }
      if (!single) reach(begin + character, score + unknown_score_, parts_.unknown);
      begin += character;
    }
    append(tokens_of(steps), piece, ids);
  }
  // Returns the tokens of the best path, in order. Joins adjacent unknown characters to one token.
  std::vector<Token> tokens_of(const std::vector<Step>& steps) const {
    std::vector<Token> tokens;
    for (size_t end = steps.size() - 1; end > 0; end = steps[end].begin) {
      const Step& step = steps[end];
      if (step.id == parts_.unknown && !tokens.empty() && tokens.back().id == parts_.unknown) {
        tokens.back().begin = step.begin;
      } else {
        tokens.push_back({step.begin, end, step.id});
      }
    }
    std::ranges::reverse(tokens);
    return tokens;
  }
  void append(const std::vector<Token>& tokens, std::string_view piece, std::vector<int32_t>& ids) const {
    for (const Token& token : tokens) {
      const std::string_view text = piece.substr(token.begin, token.end - token.begin);
      const bool unknown = token.id == parts_.unknown && text != parts_.pieces[token.id].text;
      if (!unknown || !have_bytes(parts_.bytes, text)) {
        ids.push_back(token.id);
        continue;
      }
      for (const char byte : text) ids.push_back(parts_.bytes[static_cast<unsigned char>(byte)]);
    }
  }

  UnigramParts parts_;
  PairTable children_;               // (node, byte) -> the id of the child node
  std::vector<int32_t> ids_ = {-1};  // id of the token that ends at each node; -1: none
  double unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<TextModel> make_unigram(UnigramParts parts) { return std::make_unique<Unigram>(std::move(parts)); }

}  // namespace hexad::data
