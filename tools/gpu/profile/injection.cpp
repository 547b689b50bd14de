// libhexad_gpu_profile.so. If CUDA_INJECTION64_PATH names this library, the driver loads it into any program and calls
// InitializeInjection() during the program's first CUDA call. The library records the card's activities with CUPTI's
// activity API. When the program exits, the library writes the profile to $HEXAD_GPU_PROFILE.txt and .json
// (gpu_profile.txt and .json if the variable is not set).
#include <cupti.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tools/gpu/profile/profile_report.h"
#include "tools/gpu/profile/step_profile.h"

namespace hexad::gpu_profile {
namespace {

constexpr std::string_view update_kernel = "adamw";
constexpr int64_t warm_up_steps = 3;
constexpr size_t buffer_bytes = size_t{8} << 20;
constexpr std::align_val_t buffer_alignment{8};  // value of ACTIVITY_RECORD_ALIGNMENT, a macro of CUPTI's header

void cupti_check(CUptiResult result, const char* call) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = "unknown";
  cuptiGetResultString(result, &text);
  throw std::runtime_error(std::string(call) + ": " + text);
}

void complain(const char* what) { std::fprintf(stderr, "gpu_profile: %s\n", what); }

const char* direction(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOH:
      return "host to host";
    default:
      return "other";
  }
}

std::string copy_name(const CUpti_ActivityMemcpy6& copy) {
  const auto is = [&](int kind) { return copy.srcKind == kind || copy.dstKind == kind; };
  std::string name = std::string("memcpy ") + direction(copy.copyKind);
  if (is(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE)) name += ", pageable";
  if (is(CUPTI_ACTIVITY_MEMORY_KIND_PINNED)) name += ", pinned";
  return name;
}

/// Records all activities, which CUPTI's thread adds. Writes their profile when the program exits.
class Recorder {
 public:
  void add(const CUpti_Activity* record) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        return add(Kind::kernel, kernel.name ? kernel.name : "unnamed", kernel.start, kernel.end, 0, kernel.streamId);
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY: {
        const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record);
        return add(Kind::memcpy, copy_name(copy), copy.start, copy.end, copy.bytes, copy.streamId);
      }
      case CUPTI_ACTIVITY_KIND_MEMSET: {
        const auto& fill = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
        return add(Kind::memset, "memset", fill.start, fill.end, fill.bytes, fill.streamId);
      }
      default:
        return;
    }
  }
  void add_all(uint8_t* buffer, size_t bytes, size_t dropped) {
    const std::scoped_lock lock(mutex_);
    dropped_ += dropped;
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, bytes, &record) == CUPTI_SUCCESS) add(record);
  }
  void write() {
    const std::scoped_lock lock(mutex_);
    std::sort(activities_.begin(), activities_.end(), [](const Activity& a, const Activity& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    if (dropped_ + unfinished_ > 0)
      complain(("lost records: " + std::to_string(dropped_) + ", unfinished records: " + std::to_string(unfinished_) +
                "; expected none")
                   .c_str());
    const auto found = profile(activities_, update_kernel, warm_up_steps);
    if (!found)
      return complain(("no profile: " + std::to_string(step_ends(activities_, update_kernel).size()) + " steps in " +
                       std::to_string(activities_.size()) + " records, expected more than the " +
                       std::to_string(warm_up_steps) + " warm-up steps")
                          .c_str());
    const char* path = std::getenv("HEXAD_GPU_PROFILE");
    const std::string prefix = path ? path : "gpu_profile";
    write_file(prefix + ".txt", to_text(*found));
    write_file(prefix + ".json", to_json(*found));
  }

 private:
  void add(Kind kind, std::string_view name, uint64_t begin, uint64_t end, uint64_t bytes, uint32_t stream) {
    if (begin == 0 || end < begin) {  // CUPTI marks records without times in this way
      ++unfinished_;
      return;
    }
    activities_.push_back({.kind = kind,
                           .name = *names_.emplace(name).first,  // elements of a set keep their addresses
                           .begin = static_cast<int64_t>(begin),
                           .end = static_cast<int64_t>(end),
                           .bytes = static_cast<int64_t>(bytes),
                           .stream = stream});
  }
  static void write_file(const std::string& path, const std::string& text) {
    std::ofstream file(path);
    if (!(file << text).flush()) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
  }

  std::mutex mutex_;
  std::unordered_set<std::string> names_;
  std::vector<Activity> activities_;
  size_t dropped_ = 0, unfinished_ = 0;
};

/// Returns the recorder, which is never destroyed: CUPTI's thread may deliver records until the process ends.
Recorder& recorder() {
  static Recorder& one = *new Recorder;
  return one;
}

void CUPTIAPI buffer_requested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(::operator new(buffer_bytes, buffer_alignment, std::nothrow));
  *bytes = *buffer ? buffer_bytes : 0;
  *max_records = 0;  // 0: only the buffer's size limits the number of records
}

void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid_bytes) {
  size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
  try {
    recorder().add_all(buffer, valid_bytes, dropped);
  } catch (const std::exception& error) {
    complain(error.what());
  }
  ::operator delete(buffer, buffer_alignment);
}

void at_exit() {
  try {
    cupti_check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
    recorder().write();
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

}  // namespace
}  // namespace hexad::gpu_profile

extern "C" [[gnu::visibility("default")]] int InitializeInjection() {
  using namespace hexad::gpu_profile;
  try {
    cupti_check(cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed), "cuptiActivityRegisterCallbacks");
    for (const CUpti_ActivityKind kind :
         {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
      cupti_check(cuptiActivityEnable(kind), "cuptiActivityEnable");
    recorder();
    std::atexit(at_exit);
  } catch (const std::exception& error) {
    complain(error.what());
  }
  return 1;  // after an error, the program continues without a profile
}
