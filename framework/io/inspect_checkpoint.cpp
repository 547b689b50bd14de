#include "framework/io/inspect_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/io/json.h"

namespace hexad::io {

namespace {

struct Total {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

std::map<Kind, Total> totals_by_kind(const Manifest& manifest) {
  std::map<Kind, Total> totals;
  for (const TensorRecord& t : manifest.tensors) {
    Total& total = totals[t.kind];
    ++total.tensors;
    total.elements += t.shape.numel();
    total.bytes += t.bytes();
  }
  return totals;
}

int64_t file_bytes(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const ShardRecord& shard : manifest.shards) bytes += shard.bytes;
  return bytes;
}

/// Returns the JSON object that describes a checkpoint.
Json json_of(const Checkpoint& checkpoint) {
  const Manifest& m = checkpoint.manifest();
  Json totals = Json::object(), tensors = Json::array();
  for (const auto& [kind, total] : totals_by_kind(m)) {
    totals[std::string(name_of(kind))] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
  }
  for (const TensorRecord& t : m.tensors) {
    tensors.push_back({{"name", t.name},
                       {"kind", name_of(t.kind)},
                       {"dtype", name_of(t.dtype)},
                       {"shape", std::vector<int64_t>(t.shape.begin(), t.shape.end())},
                       {"bytes", t.bytes()},
                       {"pieces", t.pieces.size()}});
  }
  return {{"folder", checkpoint.folder()},
          {"step", m.run.step},
          {"tokens", m.run.tokens},
          {"seed", m.run.seed},
          {"sequence", m.sequence},
          {"generation", m.generation},
          {"layout", Json::parse(m.run.layout)},
          {"shards", m.shards.size()},
          {"bytes", file_bytes(m)},
          {"totals", std::move(totals)},
          {"tensors", std::move(tensors)}};
}

// Returns JSON text. Invalid UTF-8, which the name of a folder may contain, is replaced.
std::string text_of(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string describe(const Checkpoint& checkpoint) {
  const Manifest& m = checkpoint.manifest();
  std::string text =
      fmt::format("{}\n  step {}, {} {}, seed {}, save number {}\n  layout {}\n  {} bytes in {}\n", checkpoint.folder(),
                  m.run.step, base::grouped(m.run.tokens), base::plural(m.run.tokens, "token"), m.run.seed, m.sequence,
                  m.run.layout, base::grouped(file_bytes(m)), base::counted(std::ssize(m.shards), "shard"));
  for (const auto& [kind, total] : totals_by_kind(m)) {
    text += fmt::format("  {:<10} {:>6} {:<7} {:>20} {:<8} {:>20} bytes\n", name_of(kind), total.tensors,
                        base::plural(total.tensors, "tensor"), base::grouped(total.elements),
                        base::plural(total.elements, "element"), base::grouped(total.bytes));
  }
  size_t width = 0;
  for (const TensorRecord& t : m.tensors) width = std::max(width, t.name.size());
  for (const TensorRecord& t : m.tensors) {
    text +=
        fmt::format("{:<{}}  {:<9}  {:<4}  {:<18} {:>16} bytes  {}\n", t.name, width, name_of(t.kind), name_of(t.dtype),
                    t.shape.to_string(), base::grouped(t.bytes()), base::counted(std::ssize(t.pieces), "piece"));
  }
  return text;
}

std::string describe_json(const Checkpoint& checkpoint) { return text_of(json_of(checkpoint)); }

std::string describe(const CheckpointStore::Scan& scan) {
  std::string text;
  for (const Checkpoint& good : scan.good) text += fmt::format("good  {}\n", good.folder());
  if (!scan.good.empty()) return text + fmt::format("the run would continue from {}\n", scan.good.front().folder());
  return scan.problems.empty() ? "there is no checkpoint: the run would start from step 0\n"
                               : "no checkpoint is good: the run cannot continue\n";
}

std::string describe_json(const CheckpointStore::Scan& scan) {
  Json json = scan.good.empty() ? Json::object() : json_of(scan.good.front());
  Json good = Json::array();
  for (const Checkpoint& checkpoint : scan.good) good.push_back(checkpoint.folder());
  json["good"] = std::move(good);
  json["bad"] = scan.problems;
  return text_of(json);
}

}  // namespace hexad::io
