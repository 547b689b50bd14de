#include "tools/plan/checkpoint_estimate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "framework/base/name_pattern.h"
#include "framework/base/units.h"
#include "framework/telemetry/metrics_json.h"
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

// A temporary file without a name. No other process can open the file, and the system deletes the file when it is
// closed.
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
  bool write(std::span<const char> bytes) const {
    if (fd_ < 0) return false;
    while (!bytes.empty()) {  // on a full disk, one call writes only some of the bytes, and the next call sets errno
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(written);
    }
    return true;
  }
  bool sync() const { return fd_ >= 0 && ::fsync(fd_) == 0; }

 private:
  int fd_;
};

// Returns the first and the third quartile of `values`.
Range quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  return {values[values.size() / 4], values[values.size() * 3 / 4]};
}

// Measures the speed of writes to `folder`. Returns zeros, with the reason in errno, if a file there cannot be created,
// written or flushed.
DiskSpeed measured_speed(const fs::path& folder) {
  constexpr size_t piece = size_t{4} << 20, fewest = 3, most = 24;
  constexpr double longest = 0.8;
  const ScratchFile file(folder);
  const std::vector<char> bytes(piece, 'x');
  const auto seconds_of = [&](const std::vector<char>& written) -> double {
    const auto began = steady_clock::now();
    return file.write(written) && file.sync() ? seconds_since(began) : 0;
  };
  std::vector<double> syncs, pieces;
  const auto began = steady_clock::now();
  while (pieces.size() < fewest || (pieces.size() < most && seconds_since(began) < longest)) {
    syncs.push_back(seconds_of({'x'}));
    pieces.push_back(seconds_of(bytes) / static_cast<double>(piece));
    if (syncs.back() <= 0 || pieces.back() <= 0) return {};
  }
  return {quartiles(std::move(syncs)), quartiles(std::move(pieces))};
}

// Returns the range of seconds per byte of a run's last saves, at most five; zeros if there are none.
Range last_saves(const fs::path& run_dir) {
  std::error_code error;
  if (!fs::is_regular_file(run_dir / "metrics.jsonl", error)) return {};
  std::vector<double> seconds;
  const auto saves = telemetry::read_metrics(run_dir / "metrics.jsonl").saves;
  for (size_t i = saves.size() > 5 ? saves.size() - 5 : 0; i < saves.size(); ++i)
    if (saves[i].bytes > 0 && saves[i].seconds > 0)
      seconds.push_back(saves[i].seconds / static_cast<double>(saves[i].bytes));
  if (seconds.empty()) return {};
  const auto [least, most] = std::ranges::minmax(seconds);
  return {least, most};
}

}  // namespace

double checkpoint_bytes(const train::Recipe& recipe, const train::Extensions& extensions) {
  const base::Dtype dtype = train::dtype_of(recipe.train.precision), acc = accumulator_dtype(dtype);
  const auto rule = extensions.optimizers.make(recipe.optim);
  int64_t bytes = 0;
  for (const auto& p : layers::parameter_sizes(recipe.model, extensions)) {
    const int64_t states = std::ssize(rule->states_of(p.spec));
    const int64_t trained = size_of(acc) + states * size_of(recipe.optim.state_dtype(acc));
    bytes += p.elements * (base::matches_any(recipe.optim.freeze, p.name) ? size_of(dtype) : trained);
  }
  return static_cast<double>(bytes);
}

std::string WriteTime::text() const {
  if (most <= 0) return {};
  const std::string from = base::human_duration(least), to = base::human_duration(most);
  return from == to ? "about " + from : fmt::format("about {} to {}", from, to);
}

WriteTime write_time(const DiskSpeed& speed, double bytes, const std::string& folder) {
  // A save flushes seven times in sequence: the shard, the manifest, the pointer to the newest checkpoint, and four
  // folders.
  constexpr int syncs = 7;
  constexpr double margin = 2;
  const auto [sync, a_byte] = speed;
  const double least = syncs * sync.least + bytes * a_byte.least, most = syncs * sync.most + bytes * a_byte.most;
  return {
      least, most, most * margin,
      fmt::format("one process writes to {2} at {0} to {1}, and waits {3} times for the disk, {4:.3g} ms to {5:.3g} ms "
                  "each; measured now",
                  base::human_quantity(1 / a_byte.most, "B/s"), base::human_quantity(1 / a_byte.least, "B/s"), folder,
                  syncs, 1e3 * sync.least, 1e3 * sync.most)};
}

WriteTime estimate_write(const std::string& run_dir, double bytes) {
  if (const Range saves = last_saves(run_dir); saves.most > 0)
    return {saves.least * bytes, saves.most * bytes, saves.most * bytes, "like the last saves of " + run_dir};
  const fs::path folder = nearest_folder(run_dir);
  const DiskSpeed speed = measured_speed(folder);
  if (speed.seconds_per_byte.most <= 0)
    return {0, 0, 0, fmt::format("cannot write to {}: {}", folder.string(), std::strerror(errno))};
  return write_time(speed, bytes, folder.string());
}

}  // namespace hexad::plan
