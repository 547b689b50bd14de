#include "framework/base/file_work.h"

#include <mutex>
#include <utility>
#include <vector>

namespace hexad::base {

struct FileWork::Shared {
  std::mutex mutex;
  std::vector<std::string> phases;  // descriptions of the open phases, innermost last
  State state;
  std::function<void(uint64_t)> hook;
};

FileWork::FileWork() : shared_(std::make_shared<Shared>()) {}

FileWork::Phase::Phase(const FileWork& work, std::string what) : work_(&work) {
  Shared& shared = *work.shared_;
  std::lock_guard lock(shared.mutex);
  shared.phases.push_back(std::move(what));
  shared.state.file.clear();
  shared.state.bytes = 0;
  ++shared.state.moves;
}

FileWork::Phase::~Phase() {
  std::lock_guard lock(work_->shared_->mutex);
  work_->shared_->phases.pop_back();
}

void FileWork::moved(std::string_view file, int64_t bytes) const {
  std::function<void(uint64_t)> hook;
  uint64_t moves = 0;
  {
    std::lock_guard lock(shared_->mutex);
    State& state = shared_->state;
    if (state.file != file) {
      state.file = file;
      state.bytes = 0;
    }
    state.bytes += bytes;
    moves = ++state.moves;
    hook = shared_->hook;
  }
  if (hook) hook(moves);
}

std::optional<FileWork::State> FileWork::now() const {
  std::lock_guard lock(shared_->mutex);
  if (shared_->phases.empty()) return {};
  State state = shared_->state;
  state.what = shared_->phases.back();
  return state;
}

void FileWork::on_move(std::function<void(uint64_t)> hook) const {
  std::lock_guard lock(shared_->mutex);
  shared_->hook = std::move(hook);
}

}  // namespace hexad::base
