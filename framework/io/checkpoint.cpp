#include "framework/io/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "framework/base/counted.h"
#include "framework/base/path_problem.h"
#include "framework/data/digest.h"
#include "framework/data/file.h"
#include "framework/io/manifest_pages.h"

namespace hexad::io {

using namespace base;

namespace {

std::string digest_of_file(const std::string& path, const FileWork& work) {
  const data::ReadFile file(path);
  data::StreamingDigest digest;
  std::vector<char> window(1 << 20);
  for (int64_t at = 0; at < file.size();) {
    const int64_t count = std::min<int64_t>(static_cast<int64_t>(window.size()), file.size() - at);
    file.read_at(at, window.data(), count);
    digest.add(window.data(), count);
    at += count;
    work.moved(path, count);
  }
  return digest.value().to_string();
}

/// Returns `region` relative to `origin`, a position in the same tensor.
Region relative(Region region, const Shape& origin) {
  for (int d = 0; d < origin.rank(); ++d) region.begin[d] -= origin[d];
  return region;
}

constexpr std::string_view not_a_checkpoint = ", so this is not a checkpoint";

std::string manifest_path(const std::string& folder) { return folder + "/manifest.json"; }

/// Returns a lock that protects a checkpoint against removal. Throws Error(data) if the checkpoint is being deleted, or
/// if its manifest is not a regular file.
FileLock locked(const std::string& folder) {
  const std::string path = manifest_path(folder);
  require_regular_file(path, not_a_checkpoint);
  std::optional<FileLock> lock = FileLock::take(path, FileLock::Mode::shared);
  if (!lock) fail(ExitCode::data, folder, ": is being deleted; choose another checkpoint");
  return std::move(*lock);
}

/// Throws Error(data) if `path` is not a regular file of `bytes` bytes. The result of `about` is appended to the
/// message.
void check_file(const std::string& path, int64_t bytes, const std::function<std::string()>& about) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size == bytes) return;
  require_regular_file(path, about());
  fail(ExitCode::data, path, ": has ", status.st_size, " bytes, expected ", bytes, about());
}

}  // namespace

void require_regular_file(const std::string& path, std::string_view about) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    fail(ExitCode::data, path, ": ", errno == ENOENT ? "is missing" : system_reason(path, errno, "file"), about);
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ExitCode::data, path, ": is ", S_ISLNK(status.st_mode) ? "a link" : "not a regular file", about,
         "; expected a regular file");
  }
}

Checkpoint::Checkpoint(std::string folder, FileLock lock, std::string_view text, FileWork work)
    : folder_(std::move(folder)),
      lock_(std::move(lock)),
      manifest_(manifest_from_json(text, manifest_path(folder_))),
      pages_(manifest_.pages.size()),
      work_(std::move(work)) {
  work_.moved(manifest_path(folder_));
  auto& tensors = manifest_.tensors;
  std::ranges::sort(tensors, {}, key_of);
  const auto twice = std::ranges::adjacent_find(tensors, {}, key_of);
  if (twice != tensors.end()) {
    fail(ExitCode::data, manifest_path(folder_), ": ", name_of(twice->kind), " '", twice->name,
         "' is listed twice, expected once");
  }
}

std::string Checkpoint::read_manifest(const std::string& folder) {
  const std::string path = manifest_path(folder);
  require_regular_file(path, not_a_checkpoint);
  return data::read_file(path, max_manifest_bytes);
}

Checkpoint Checkpoint::open_read(const std::string& folder, std::string_view text, FileWork work) {
  return {folder, locked(folder), text, std::move(work)};
}

Checkpoint Checkpoint::open(const std::string& folder, Check check, FileWork work) {
  FileLock lock = locked(folder);
  Checkpoint checkpoint(folder, std::move(lock), read_manifest(folder), std::move(work));
  for (size_t i = 0; i < checkpoint.manifest_.shards.size(); ++i) {
    checkpoint.check_presence(i);
    // Reports progress after each check, because a check takes long if the file system is slow.
    checkpoint.work_.moved(manifest_path(folder));
  }
  for (const ManifestPage& page : checkpoint.manifest_.pages) {
    check_file(folder + "/" + page.file.file, page.file.bytes, [] { return std::string(" (the file lists tensors)"); });
    checkpoint.work_.moved(manifest_path(folder));
  }
  if (check == Check::full) checkpoint.verify();
  return checkpoint;
}

std::vector<ShardRecord> Checkpoint::files() const {
  std::vector<ShardRecord> all = manifest_.shards;
  for (const ManifestPage& page : manifest_.pages) all.push_back(page.file);
  return all;
}

const Manifest& Checkpoint::manifest() const {
  if (pages_.empty() || !manifest_.tensors.empty()) return manifest_;
  std::vector<TensorRecord> all;
  for (size_t i = 0; i < pages_.size(); ++i) all.insert(all.end(), page(i).begin(), page(i).end());
  manifest_.tensors = std::move(all);  // assigned only after all pages have been read, because page() may throw
  return manifest_;
}

const std::vector<TensorRecord>& Checkpoint::page(size_t index) const {
  std::optional<std::vector<TensorRecord>>& tensors = pages_[index];
  if (!tensors) tensors = read_page(index);
  return *tensors;
}

std::vector<TensorRecord> Checkpoint::read_page(size_t index) const {
  const std::string path = folder_ + "/" + manifest_.pages[index].file.file;
  require_regular_file(path);
  std::vector<TensorRecord> tensors = page_from_json(manifest_, index, data::read_file(path, max_manifest_bytes), path);
  work_.moved(path, manifest_.pages[index].file.bytes);
  return tensors;
}

const TensorRecord* Checkpoint::find(std::string_view name, Kind kind) const {
  const std::pair wanted(name, kind);
  const std::vector<TensorRecord>* tensors = &manifest_.tensors;
  if (!pages_.empty()) {
    const auto next = std::ranges::upper_bound(manifest_.pages, wanted, {}, key_of);
    if (next == manifest_.pages.begin()) return nullptr;
    tensors = &page(next - manifest_.pages.begin() - 1);
  }
  const auto at = std::ranges::lower_bound(*tensors, wanted, {}, key_of);
  return at != tensors->end() && key_of(*at) == wanted ? &*at : nullptr;
}

const TensorRecord& Checkpoint::record(std::string_view name, Kind kind) const {
  const TensorRecord* found = find(name, kind);
  if (!found)
    fail(ExitCode::data, folder_, ": contains no tensor '", name_of(kind), ":", name,
         "'; expected a checkpoint of a model with this tensor");
  return *found;
}

std::string Checkpoint::holdings(size_t shard) const {
  const TensorRecord* first = nullptr;
  int64_t count = 0;
  for (const TensorRecord& t : manifest().tensors) {
    const bool here = std::ranges::any_of(t.pieces, [&](const Piece& p) { return p.shard == shard; });
    if (here && ++count == 1) first = &t;
  }
  if (!first) return " (the file holds no tensor)";
  return cat(" (the file holds ", name_of(first->kind), " '", first->name, "'",
             count > 1 ? cat(" and ", count - 1, " more ", plural(count - 1, "tensor")) : "", ")");
}

void Checkpoint::check_presence(size_t shard) const {
  check_file(shard_path(shard), manifest_.shards[shard].bytes, [&] { return holdings(shard); });
}

const SafetensorsFile& Checkpoint::open_shard(size_t shard) {
  const auto known = shards_.find(shard);
  if (known != shards_.end()) return known->second;
  check_presence(shard);
  return shards_.emplace(shard, SafetensorsFile::open(shard_path(shard), work_)).first->second;
}

const SafetensorsFile& Checkpoint::open_piece(const TensorRecord& tensor, const Piece& piece) {
  const SafetensorsFile& file = open_shard(piece.shard);
  const auto where = [&] { return cat(file.path(), ": ", name_of(tensor.kind), " '", tensor.name, "'"); };
  if (!file.contains(piece.stored))
    fail(ExitCode::data, where(),
         " is missing, but the manifest lists it in this shard; expected the file that was saved with this manifest");
  const TensorInfo& stored = file.info(piece.stored);
  if (stored.dtype != tensor.dtype || stored.shape != piece.region.size) {
    fail(ExitCode::data, where(), " is ", stored.dtype, " ", stored.shape, ", expected ", tensor.dtype, " ",
         piece.region.size);
  }
  if (shares_checked_ || checked_shards_.contains(piece.shard) || checked_.contains({piece.shard, piece.stored}))
    return file;
  const std::string digest = file.digest(piece.stored);
  if (digest != piece.digest)
    fail(ExitCode::data, where(), " is damaged: digest ", digest, ", expected ", piece.digest,
         "; copy this file again, or choose another checkpoint");
  checked_.emplace(piece.shard, piece.stored);
  return file;
}

Tensor Checkpoint::read(std::string_view name, Kind kind, const Region& region, Device device, Category category) {
  const TensorRecord& tensor = record(name, kind);
  if (!inside(region, tensor.shape)) {
    fail(ExitCode::data, folder_, ": ", name_of(kind), " '", name, "' has shape ", tensor.shape, "; region ",
         to_string(region), " exceeds this shape; expected a region inside it");
  }
  Tensor out = Tensor::empty(region.size, tensor.dtype, device, category);
  int64_t filled = 0;
  for (const Piece& piece : tensor.pieces) {
    const Region shared = intersection(piece.region, region);
    if (shared.size.numel() == 0) continue;
    open_piece(tensor, piece)
        .read_into(slice(out, relative(shared, region.begin)), piece.stored, relative(shared, piece.region.begin));
    filled += shared.size.numel();
  }
  if (filled != region.size.numel()) {
    fail(ExitCode::data, folder_, ": the pieces of ", name_of(kind), " '", name, "' cover ", filled, " of the ",
         region.size.numel(), " elements of ", to_string(region), ", expected all");
  }
  return out;
}

Tensor Checkpoint::read(std::string_view name, Kind kind, Device device, Category category) {
  return read(name, kind, whole(record(name, kind).shape), device, category);
}

void Checkpoint::verify(Share share) {
  for (size_t i = share.index; i < pages_.size(); i += share.of) page(i);
  const size_t shards = manifest_.shards.size();
  if (share.of > shards && shards > 0 && pages_.empty()) {
    const size_t shard = share.index % shards;
    verify_pieces(shard, {.index = share.index / shards, .of = (share.of - shard + shards - 1) / shards});
    return;
  }
  // Shards are not divided if there are pages, because finding the pieces of a shard would require reading all pages.
  for (size_t i = share.index; i < shards; i += share.of) verify_shard(i);
}

void Checkpoint::verify_pieces(size_t shard, Share share) {
  // The sums are doubles, because the sizes in an inconsistent manifest may add up to more than an int64_t can hold.
  double total = 1, begin = 0;  // total: 1 + bytes of all pieces (never 0); begin: bytes of the pieces so far
  for (const TensorInfo& stored : open_shard(shard).tensors()) total += static_cast<double>(stored.end - stored.begin);
  const auto shares = static_cast<double>(share.of);
  for (const TensorRecord& tensor : manifest_.tensors)
    for (const Piece& piece : tensor.pieces) {
      if (piece.shard != shard) continue;
      const auto owner = static_cast<size_t>(std::min(begin / total * shares, shares - 1));
      if (owner == share.index) open_piece(tensor, piece);
      begin += static_cast<double>(piece.region.size.numel()) * static_cast<double>(size_of(tensor.dtype));
    }
}

void Checkpoint::verify_shard(size_t shard) {
  check_presence(shard);
  if (digest_of_file(shard_path(shard), work_) == manifest_.shards[shard].digest) {
    checked_shards_.insert(shard);
    return;
  }
  for (const TensorRecord& tensor : manifest().tensors)
    for (const Piece& piece : tensor.pieces)
      // Throws an error that names the tensor if the damage is inside the tensor.
      if (piece.shard == shard) open_piece(tensor, piece);
  fail(ExitCode::data, shard_path(shard), ": is damaged in its header, outside of every tensor", holdings(shard),
       "; copy this file again, or choose another checkpoint");
}

}  // namespace hexad::io
