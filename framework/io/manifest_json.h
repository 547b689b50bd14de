// The JSON of the manifest's parts, shared by the manifest and by what travels between ranks.
#pragma once

#include "framework/io/json.h"
#include "framework/io/manifest.h"

namespace hexad::io {

Json to_json(const ShardRecord& shard);
Json to_json(const TensorRecord& tensor);
ShardRecord shard_from(const JsonNode& node);
/// `shards`: how many there are to refer to.
TensorRecord tensor_from(const JsonNode& node, size_t shards);

}  // namespace hexad::io
