// Context of a forward pass: everything but activations.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "framework/autograd/ops/ops.h"
#include "layers/base/layer_names.h"
#include "parallel/cp/context_split.h"

namespace hexad::layers {

/// Cached values of one sequence, for all tokens so far. Layers of other pipeline ranks have no tensors.
///   - Grouped-query attention: `keys` and `values`, both [maximum length, G, C]. G is the number of key/value heads on
///     this rank, and C is the size of a head.
///   - Latent attention: only `keys`, [maximum length, 1, rope_size + kv_rank].
///   - Delta net: `state` [1, heads on this rank, key_size, value_size] after the last token, and `recent`. Each of the
///     convolutions of queries, keys and values has its last conv_size - 1 input rows in `recent`.
struct KeyValueCache {
  struct Layer {
    Tensor keys, values;
    Tensor state{};
    std::array<Tensor, 3> recent{};
  };
  std::vector<Layer> layers;
  int64_t length = 0;  // number of tokens whose keys and values are stored
};

/// Micro-batch of `sequences` sequences of `length` tokens each. The index of a token is sequence * length + position.
/// Each row of a rank belongs to one token. Under context parallelism, a rank has rows for some of the tokens, in the
/// order of cp::ContextSplit. Otherwise, it has rows for all tokens, in order. Index tensors are i32 [rows()]. Values
/// in `positions` count from the beginning of the token's document. Values in `first`, `last`, `chunk_first` and
/// `chunk_last` count from the beginning of the sequence.
struct MicroBatch {
  int64_t sequences = 0, length = 0;
  int context_ranks = 1, context_rank = 0;
  Tensor ids, positions;
  Tensor targets;      // id of the token to predict at each row; -1: none
  Tensor first, last;  // positions [first, last) of each token's document; undefined: the whole sequence
  /// Positions [chunk_first, chunk_last) of each token's attention chunk (Llama 4: model.attention_chunk); undefined:
  /// the model has no attention chunks.
  Tensor chunk_first, chunk_last;
  int64_t chunks = 0;       // number of attention chunks over all ranks that share the micro-batch; 0: none
  Tensor valid;             // u8 [rows()]: 0 for padding; undefined: no padding
  int64_t first_token = 0;  // global index of token 0, for routing overrides and logs
  /// Number of tokens in each sequence that are not padding, over all ranks; empty: no sequence has padding.
  std::vector<int64_t> valid_tokens{};
  /// Index of each row's token; empty: row r is token r.
  std::vector<int64_t> row_tokens{};

  /// Tokens that prediction block k (from 0) reads and predicts in the row of token i. The tensors have the shapes and
  /// dtypes of `ids` and `targets` above.
  struct Further {
    Tensor ids;      // id of token i + k + 1, or of the document's last token if the document has no token i + k + 1
    Tensor targets;  // id of token i + k + 2; -1: none
  };
  std::vector<Further> further{};  // one for each prediction block; empty: the blocks do not run

  int64_t predicted = 0;  // number of rows with a target
  /// Number of documents over all ranks that share the micro-batch (AttentionShape::documents). 0: not counted, for
  /// example because every sequence is one document.
  int64_t documents = 0;

  /// Returns the number of tokens on all ranks that share the micro-batch.
  int64_t tokens() const { return sequences * length; }
  /// Returns the number of rows, one per token, on this rank.
  int64_t rows() const { return tokens() / context_ranks; }
  int64_t token(int64_t row) const { return row_tokens.empty() ? row : row_tokens[row]; }
  int64_t valid_in(int64_t sequence) const { return valid_tokens.empty() ? length : valid_tokens[sequence]; }
  cp::ContextSplit split() const { return {sequences, length, context_ranks, context_rank}; }
};

class BlockRunner;
class RoutingLog;
struct RouterStatistics;

/// Settings of one forward pass, and the objects to which layers report.
struct ForwardContext {
  const MicroBatch& batch;
  uint64_t seed = 0;
  uint64_t step = 0;
  /// Statistics of each MoE layer; null outside training. Each micro-batch is counted once, because recomputation in
  /// backward does not write statistics.
  std::vector<RouterStatistics>* statistics = nullptr;
  /// Caches of the micro-batch's sequences, in order. Generation appends the new tokens to these caches. Sequences
  /// without a cache are padding. Empty: the micro-batch has whole sequences and no cache is used.
  std::span<KeyValueCache* const> caches{};
  RoutingLog* routing_to = nullptr;          // log that records the experts of each token; null: no record
  const RoutingLog* routing_from = nullptr;  // log from which the experts are taken; null: the router chooses them
  BlockRunner* blocks = nullptr;             // runs all blocks except prediction blocks; null: they run directly
};

}  // namespace hexad::layers
