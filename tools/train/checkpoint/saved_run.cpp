#include "tools/train/checkpoint/saved_run.h"

#include "framework/base/absolute_path.h"
#include "framework/base/enum_names.h"
#include "framework/io/json.h"
#include "tools/train/recipe/renamed_keys.h"

namespace hexad::train {
namespace {

using io::Json;
using io::JsonNode;

std::string manifest_of(const io::Checkpoint& checkpoint) { return checkpoint.folder() + "/manifest.json"; }

// A member of the manifest whose text is JSON about the run.
class Member {
 public:
  Member(const io::Checkpoint& checkpoint, std::string name, const std::string& text)
      : where_(manifest_of(checkpoint)), name_(std::move(name)), value_(io::parse_json(text, where_)) {}
  JsonNode root() const { return {value_, where_, name_}; }
  JsonNode operator[](const char* key) const { return root()[key]; }
  bool contains(const char* key) const { return value_.is_object() && value_.contains(key); }
  /// Returns the text of `key`. Returns `otherwise` if the key is missing, because an older program did not write it.
  std::string text(const char* key, const char* otherwise) const {
    root().check(value_.is_object(), "an object");
    return value_.contains(key) ? root()[key].text() : otherwise;
  }

 private:
  std::string where_, name_;
  Json value_;
};

Member data_position(const io::Checkpoint& checkpoint) {
  return {checkpoint, "data_position", checkpoint.run().data_position};
}

}  // namespace

io::RunState saved_run(const Progress& progress, const Recipe& recipe, int64_t world) {
  io::RunState run;
  run.step = progress.step;
  run.tokens = progress.tokens;
  run.seed = recipe.train.seed;
  Recipe kept = recipe;
  kept.train.init_from = base::absolute_path(recipe.train.init_from);  // an export may run in another folder
  run.recipe = config::write(kept);
  Json fingerprints = Json::array();
  for (const data::Digest& f : progress.fingerprints) fingerprints.push_back({f.high, f.low});
  Json position{{"next_sequence", progress.next_sequence},
                {"fingerprints", fingerprints},
                {"shuffle", base::enum_name(recipe.data.order())}};
  if (const data::MixtureStart& start = progress.mixture_start; !start.drawn.empty())
    position["mixture_start"] = {{"sequence", start.sequence}, {"drawn", start.drawn}};
  run.data_position = position.dump();
  run.random_state = Json{
      {"skipped", progress.skipped},
      {"schedule", progress.schedule},
      {"schedule_choice", progress.schedule_choice},
      {"fused",
       progress.fused}}.dump();
  run.layout = Json(describe(recipe.parallel, world)).dump();
  return run;
}

config::Document saved_document(const io::Checkpoint& checkpoint) {
  auto document = config::parse(checkpoint.run().recipe, manifest_of(checkpoint) + ": recipe");
  rename_keys(document);
  return document;
}

Recipe saved_recipe(const io::Checkpoint& checkpoint) {
  config::Problems problems;
  Recipe recipe = config::read<Recipe>(saved_document(checkpoint), problems);
  problems.throw_if_any();
  return recipe;
}

Progress saved_progress(const io::Checkpoint& checkpoint) {
  const io::RunState& run = checkpoint.run();
  const Member state(checkpoint, "random_state", run.random_state);
  return {.step = run.step,
          .skipped = state["skipped"].integer(),
          .tokens = run.tokens,
          .next_sequence = data_position(checkpoint)["next_sequence"].integer(),
          .fingerprints = saved_fingerprints(checkpoint),
          .mixture_start = saved_mixture_start(checkpoint),
          .schedule = rename_schedules(state.text("schedule", "")),
          .schedule_choice = rename_schedules(state.text("schedule_choice", "")),
          .fused = state.text("fused", "")};
}

std::vector<data::Digest> saved_fingerprints(const io::Checkpoint& checkpoint) {
  std::vector<data::Digest> fingerprints;
  const Member position = data_position(checkpoint);
  position["fingerprints"].each([&](const JsonNode& pair) {
    std::vector<uint64_t> halves;
    pair.each([&](const JsonNode& half) { halves.push_back(half.unsigned_integer()); });
    pair.check(halves.size() == 2, "an array of 2 integers");
    fingerprints.push_back({halves[0], halves[1]});
  });
  return fingerprints;
}

data::MixtureStart saved_mixture_start(const io::Checkpoint& checkpoint) {
  data::MixtureStart start;
  const Member position = data_position(checkpoint);
  if (!position.contains("mixture_start")) return start;
  const JsonNode saved = position["mixture_start"];
  start.sequence = saved["sequence"].integer();
  saved["drawn"].each([&](const JsonNode& count) { start.drawn.push_back(count.integer()); });
  saved["drawn"].check(start.drawn.size() == saved_fingerprints(checkpoint).size(), "a count for each fingerprint");
  saved["sequence"].check(start.sequence <= position["next_sequence"].integer(), "at most next_sequence");
  return start;
}

std::string saved_shuffle(const io::Checkpoint& checkpoint) {
  return data_position(checkpoint).text("shuffle", "documents");
}

std::string saved_layout(const io::Checkpoint& checkpoint) {
  return Member(checkpoint, "layout", checkpoint.run().layout).root().text();
}

}  // namespace hexad::train
