#include "tools/plan/checkpoint_estimate.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "framework/telemetry/metrics_json.h"
#include "framework/telemetry/units.h"
#include "layers/model_size.h"

namespace hexad::plan {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point began) {
  return std::chrono::duration<double>(steady_clock::now() - began).count();
}

fs::path nearest_folder(const fs::path& path) {
  std::error_code error;
  fs::path folder = fs::absolute(path);
  while (!fs::is_directory(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

// A file without a name: nobody sees it, and it is gone when it is closed.
class ScratchFile {
 public:
  explicit ScratchFile(const fs::path& folder) {
    std::string name = (folder / ".hexad-XXXXXX").string();
    fd_ = ::mkstemp(name.data());
    if (fd_ >= 0) ::unlink(name.c_str());
  }
  ~ScratchFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  ScratchFile(const ScratchFile&) = delete;
  bool write(const std::vector<char>& bytes) const {
    return fd_ >= 0 && ::write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  }
  bool sync() const { return fd_ >= 0 && ::fsync(fd_) == 0; }

 private:
  int fd_;
};

struct Disk {
  double sync_seconds, bytes_per_second;
};

// Throws nothing: 0 bytes a second where it cannot be written to, with errno.
Disk measured(const fs::path& folder) {
  constexpr size_t piece = size_t{4} << 20, most = 16;
  constexpr double longest = 0.3;
  const ScratchFile file(folder);
  const std::vector<char> bytes(piece, 'x');
  auto began = steady_clock::now();
  if (!file.write({'x'}) || !file.sync()) return {};
  const double sync = seconds_since(began);
  began = steady_clock::now();
  size_t pieces = 0;
  while (pieces < most && (pieces == 0 || seconds_since(began) < longest)) {
    if (!file.write(bytes)) return {};
    ++pieces;
  }
  if (!file.sync()) return {};
  return {sync, static_cast<double>(pieces * piece) / seconds_since(began)};
}

// Bytes and seconds of the last saves of a run.
telemetry::SaveMetrics last_saves(const fs::path& run_dir) {
  telemetry::SaveMetrics sum;
  std::error_code error;
  if (!fs::is_regular_file(run_dir / "metrics.jsonl", error)) return sum;
  const auto saves = telemetry::read_metrics(run_dir / "metrics.jsonl").saves;
  for (size_t i = saves.size() > 5 ? saves.size() - 5 : 0; i < saves.size(); ++i)
    sum.bytes += saves[i].bytes, sum.seconds += saves[i].seconds;
  return sum;
}

}  // namespace

double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions) {
  const auto element = static_cast<double>(size_of(accumulator_dtype(train::dtype_of(recipe.train.precision))));
  const auto copies =
      static_cast<double>(1 + recipe.optim.states);  // main weights and what the optimizer keeps of each
  return static_cast<double>(layers::parameter_counts(recipe.model, extensions).parameters) * element * copies;
}

WriteTime estimate_write(const std::string& run_dir, double bytes) {
  if (const auto saves = last_saves(run_dir); saves.bytes > 0 && saves.seconds > 0)
    return {saves.seconds * bytes / static_cast<double>(saves.bytes), "as the last saves of " + run_dir};
  // Shard, manifest, pointer to the newest and two folders wait for the disk, one after the other.
  constexpr int syncs = 5;
  const fs::path folder = nearest_folder(run_dir);
  const Disk disk = measured(folder);
  if (disk.bytes_per_second <= 0)
    return {0, fmt::format("{} cannot be written to: {}", folder.string(), std::strerror(errno))};
  return {syncs * disk.sync_seconds + bytes / disk.bytes_per_second,
          fmt::format("one process writes {} to {}, measured now",
                      telemetry::human_quantity(disk.bytes_per_second, "B/s"), folder.string())};
}

}  // namespace hexad::plan
