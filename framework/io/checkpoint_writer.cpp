#include "framework/io/checkpoint_writer.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/atomic_file.h"
#include "framework/io/manifest_pages.h"
#include "framework/io/output_file.h"
#include "framework/io/remove_folder.h"

namespace hexad::io {

using namespace base;

namespace fs = std::filesystem;

namespace {

/// Returns the name of a piece in its shard. The name is unique in the checkpoint, so other tools can merge the shards.
/// If the piece is smaller than its tensor, the name contains the region as a Python slice, for example
/// "main:experts.up[0:2,0:6,0:8]".
std::string stored_name(const ShardItem& item) {
  std::string name = item.kind == Kind::parameter ? item.name : cat(name_of(item.kind), ":", item.name);
  if (item.region.size == item.shape) return name;
  for (int d = 0; d < item.shape.rank(); ++d)
    name += cat(d == 0 ? "[" : ",", item.region.begin[d], ":", item.region.begin[d] + item.region.size[d]);
  return name + "]";
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(ExitCode::resource, from, ": cannot be renamed to ", to, ": ", error.message());
}

}  // namespace

CheckpointWriter::CheckpointWriter(const CheckpointStore& store, int64_t step)
    : store_(store),
      step_(step),
      folder_(store.path(step)),
      unfinished_(store.unfinished_path(step)),
      replaced_(cat(folder_, replaced_suffix)) {}

FaultHook CheckpointWriter::fault(std::string prefix) const {
  const FaultHook& hook = store_.options().fault;
  if (!hook) return {};
  return [&hook, prefix = std::move(prefix)](std::string_view point) { hook(cat(prefix, ": ", point)); };
}

void CheckpointWriter::create() {
  store_.require_current();
  std::error_code error;
  remove_folder(unfinished_, store_.options().work, error);
  if (error)
    fail(ExitCode::resource, unfinished_,
         ": the folder of an earlier, unfinished save cannot be removed: ", error.message());
  fs::create_directories(unfinished_, error);
  if (error) fail(ExitCode::resource, unfinished_, ": cannot be created: ", error.message());
  // At the first save, the folder of the store is also new, so its parent must be synced.
  sync_folder(fs::absolute(store_.folder()).parent_path().string());
  reach(store_.options().fault, "folder: created");
}

std::string CheckpointWriter::write_shard(int index, int count, std::span<const ShardItem> items) const {
  require(0 <= index && index < count, "[checkpoint] shard index is ", index, "; expected 0 to ", count - 1);
  store_.require_current();
  std::vector<NamedTensor> tensors;
  for (const ShardItem& item : items) {
    require(inside(item.region, item.shape) && item.tensor.shape() == item.region.size, "[checkpoint] ",
            name_of(item.kind), " '", item.name, "' ", item.shape, ": region ", to_string(item.region),
            " has a tensor of shape ", item.tensor.shape(), "; expected equal shapes, and a region inside the whole");
    tensors.push_back({stored_name(item), item.tensor});
  }
  ShardPart part{index, count, {fmt::format("shard-{:05}-of-{:05}.safetensors", index, count), 0, ""}, {}};
  const SafetensorsResult written =
      write_safetensors(unfinished_ + "/" + part.shard.file, tensors,
                        {{"format", "hexad"}, {"step", std::to_string(step_)}}, fault("shard"), store_.options().work);
  part.shard.bytes = written.bytes;
  part.shard.digest = written.digest;
  for (size_t i = 0; i < items.size(); ++i) {
    const ShardItem& item = items[i];
    Piece piece{static_cast<size_t>(index), tensors[i].name, item.region, written.tensors[i]};
    part.tensors.push_back({item.name, item.kind, item.tensor.dtype(), item.shape, {std::move(piece)}});
  }
  return part_to_json(part);
}

void CheckpointWriter::commit(const RunState& state, std::span<const std::string> parts) const {
  require(state.step == step_, "[checkpoint] the state is of step ", state.step, "; expected step ", step_);
  Manifest manifest = merge_parts(state, parts, store_.options().work);
  manifest.sequence = store_.next_sequence();
  if (const auto& generation = store_.options().generation) manifest.generation = generation->number();
  require_visible(manifest);
  for (const ManifestFile& part :
       manifest_files(std::move(manifest), store_.options().page_pieces, store_.options().work)) {
    const std::string path = unfinished_ + "/" + part.name;
    const bool is_page = part.name != manifest_name;
    is_page ? require_accepted_size(part.text, path) : require_readable(part.text, path);
    store_.require_current();
    OutputFile file(path, store_.options().work);
    file.append(part.text.data(), static_cast<int64_t>(part.text.size()));
    file.finish(fault(is_page ? "page" : "manifest"));
  }
  sync_folder(unfinished_);
  reach(store_.options().fault, "folder: synced");
  store_.run_if_current([&] { replace_folder(); });
  if (!survives_power_cut()) return;  // after a power cut, only older checkpoints may remain
  try {
    std::error_code error;
    store_.remove_folder_of(step_, replaced_, error);
    if (error)
      store_.options().warn(
          cat(replaced_, ": cannot be removed: ", error.message(), "; remove this folder before the next start"));
    store_.require_current();
    write_file(store_.folder() + "/latest", fs::path(folder_).filename().string() + "\n", fault("latest"));
    store_.retain();
  } catch (const std::exception& error) {
    store_.options().warn(cat(folder_, " is saved, but: ", error.what()));
  }
}

void CheckpointWriter::require_visible(const Manifest& manifest) const {
  for (const ShardRecord& shard : manifest.shards) {
    std::error_code error;
    const std::string path = unfinished_ + "/" + shard.file;
    const auto bytes = fs::file_size(path, error);
    store_.options().work.moved(path);
    if (error || static_cast<int64_t>(bytes) != shard.bytes) {
      fail(ExitCode::resource, path, ": written by another rank with ", shard.bytes, " bytes, but here it ",
           error ? "is missing" : cat("has ", bytes, " bytes"), "; expected a folder that all ranks share");
    }
  }
}

void CheckpointWriter::replace_folder() const {
  if (fs::exists(folder_)) {  // exists if the run returned to an earlier step and has reached this step again
    std::error_code error;
    // The folder `replaced_` may remain from an earlier save whose cleanup failed. The rename fails if `replaced_`
    // cannot be removed now.
    remove_folder(replaced_, store_.options().work, error);
    rename_folder(folder_, replaced_);
    reach(store_.options().fault, "folder: old one moved aside");
  }
  rename_folder(unfinished_, folder_);
}

bool CheckpointWriter::survives_power_cut() const {
  try {
    reach(store_.options().fault, "folder: renamed");
    sync_folder(store_.folder());
    reach(store_.options().fault, "folder: rename synced");
    return true;
  } catch (const std::exception& error) {
    store_.options().warn(cat(folder_, " is saved, but may not survive a power cut: ", error.what()));
    return false;
  }
}

void CheckpointWriter::discard() const noexcept {
  try {
    store_.require_current();  // a newer job removes `unfinished_`, and `replaced_` may belong to the newer job
    std::error_code error;
    remove_folder(unfinished_, store_.options().work, error);
    if (error)
      store_.options().warn(
          cat(unfinished_, ": cannot be removed: ", error.message(), "; remove this folder before the next start"));
    store_.require_current();
    if (fs::exists(replaced_) && !fs::exists(folder_)) rename_folder(replaced_, folder_);
  } catch (const std::exception& error) {
    store_.options().warn(cat(unfinished_, ": cannot be discarded: ", error.what()));
  }
}

}  // namespace hexad::io
