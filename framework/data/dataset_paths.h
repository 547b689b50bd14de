// Files of the datasets that recipes name: folders of `hexad prepare`, and indexes of Megatron-LM.
#pragma once

#include <string>

namespace hexad::data {

/// Returns the path of the training tokens of `dataset`: train.hxd in a folder, or the index NAME.idx itself.
std::string train_path(const std::string& dataset);
/// Returns the path of the held-out tokens, which may not exist: heldout.hxd in a folder, or NAME.heldout.idx.
std::string heldout_path(const std::string& dataset);
/// Returns the path of the tokenizer: tokenizer.json in the folder, or next to an index, where it may be missing.
std::string tokenizer_path(const std::string& dataset);

}  // namespace hexad::data
