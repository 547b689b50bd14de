// JSON of the parts of a manifest, for manifest.json, its pages, and messages between ranks.
#pragma once

#include "framework/io/json.h"
#include "framework/io/manifest.h"

namespace hexad::io {

Json to_json(const ShardRecord& shard);
Json to_json(const TensorRecord& tensor);
Json to_json(const ManifestPage& page);
ShardRecord shard_from(const JsonNode& node);
/// Returns a tensor whose pieces are in the shards 0 to `shards` - 1. Throws Error(data) if a value is illegal.
TensorRecord tensor_from(const JsonNode& node, size_t shards);
/// Like tensor_from(), but also throws Error(data) if the pieces together have more or fewer elements than the tensor.
TensorRecord whole_tensor_from(const JsonNode& node, size_t shards);

}  // namespace hexad::io
