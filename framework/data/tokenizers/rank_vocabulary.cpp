#include "framework/data/tokenizers/rank_vocabulary.h"

#include "framework/base/error.h"
#include "framework/data/tokenizers/bpe_model.h"

namespace hexad::data {

using namespace base;

std::unique_ptr<TextModel> make_ranked_model(const std::string& path, const std::vector<std::string>& tokens,
                                             int32_t first_id) {
  BpeParts parts;
  for (size_t rank = 0; rank < tokens.size(); ++rank) {
    const std::string& token = tokens[rank];
    if (token.empty()) continue;  // an unused rank
    if (token.size() > longest_ranked_token)
      fail(ExitCode::data, path, ": tokenizer not supported: the token of rank ", rank, " has ", token.size(),
           " bytes, expected at most ", longest_ranked_token);
    const auto id = static_cast<int32_t>(rank) + first_id;
    const auto [found, added] = parts.whole_pieces.emplace(token, id);
    if (!added)
      fail(ExitCode::data, path, ": damaged tokenizer: ranks ", found->second - first_id, " and ", rank,
           " have the same token, expected distinct tokens");
    if (token.size() == 1) parts.bytes[static_cast<unsigned char>(token[0])] = id;
  }
  for (size_t b = 0; b < parts.bytes.size(); ++b)
    if (parts.bytes[b] < 0)
      fail(ExitCode::data, path, ": damaged tokenizer: no token for the byte ", b,
           ", expected a token for each of the 256 bytes");
  for (const auto& [token, id] : parts.whole_pieces) {
    const std::string_view text = token;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = parts.whole_pieces.find(text.substr(0, cut));
      if (left == parts.whole_pieces.end()) continue;
      const auto right = parts.whole_pieces.find(text.substr(cut));
      if (right != parts.whole_pieces.end()) parts.merges.set(left->second, right->second, {id, id});
    }
  }
  return make_byte_bpe(std::move(parts));
}

}  // namespace hexad::data
