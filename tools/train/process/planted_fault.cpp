#include "tools/train/process/planted_fault.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <sstream>
#include <thread>

#include "framework/base/error.h"
#include "framework/config/words.h"

namespace hexad::train {

using namespace base;
namespace {

std::chrono::milliseconds milliseconds_of(const Fault& f) {
  int64_t count = 0;
  std::istringstream in(f.point);
  if (!(in >> count) || count < 0 || in.peek() != std::istringstream::traits_type::eof())
    fail(ExitCode::usage, "HEXAD_FAULT: ", f.kind, " has the point '", f.point,
         "', expected a whole number of milliseconds, at least 0");
  return std::chrono::milliseconds(count);
}

void end_this_rank(const Fault& f) {
  if (f.kind == "kill") std::raise(SIGKILL);
  if (f.kind == "abort") std::abort();
  if (f.kind == "segv") std::raise(SIGSEGV);
  while (f.kind == "hang") pause();
}

}  // namespace

std::optional<Fault> fault_from_environment() {
  const char* text = std::getenv("HEXAD_FAULT");
  if (!text || !*text) return {};
  Fault f;
  std::istringstream in(text);
  char comma = 0;
  std::getline(in, f.kind, '@');
  in >> f.rank >> comma >> f.step;
  constexpr std::string_view kinds[] = {"kill", "abort", "segv",     "hang", "nan",        "flip",
                                        "ulp",  "full",  "gradient", "slow", "slow_files", "stuck_files"};
  const bool read = !in.fail();
  const int next = read ? in.get() : 0;
  const bool ends = next == ',' || next == std::istringstream::traits_type::eof();
  if (!read || !ends || comma != ',' || std::find(std::begin(kinds), std::end(kinds), f.kind) == std::end(kinds))
    fail(ExitCode::usage, "HEXAD_FAULT is '", text,
         "'; expected kill|abort|segv|hang|nan|flip|ulp|full|gradient|slow|slow_files|stuck_files@rank,step[,point]");
  if (next == ',') std::getline(in, f.point);
  return f;
}

std::optional<Fault> fault_of_step(int rank, int64_t step) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || f->step != step || (!f->point.empty() && f->point != "step")) return {};
  return f;
}

void inject_fault(int rank, int64_t step) {
  if (const auto f = fault_of_step(rank, step)) end_this_rank(*f);
}

void inject_slowness(int rank, int64_t step, device::SpanLog& spans) {
  const auto f = fault_from_environment();
  if (!f || f->kind != "slow" || f->rank != rank || step < f->step) return;
  const device::Span span(spans, "injected slowness");
  std::this_thread::sleep_for(milliseconds_of(*f));
}

void inject_file_fault(int rank, const base::FileWork& work) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || !f->kind.ends_with("_files")) return;
  work.on_move([f = *f](uint64_t moves) {
    if (static_cast<int64_t>(moves) < f.step) return;
    while (f.kind == "stuck_files") pause();
    std::this_thread::sleep_for(milliseconds_of(f));
  });
}

void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps) {
  const auto f = fault_from_environment();
  if (!f) return;
  if (f->kind != "gradient")
    fail(ExitCode::usage, "HEXAD_FAULT: '", f->kind, "' is not planted by this command; legal here: gradient");
  if (f->rank >= ranks)
    fail(ExitCode::usage, "HEXAD_FAULT: rank ", f->rank, " does not exist; expected a rank from 0 to ", ranks - 1);
  if (f->step > steps)
    fail(ExitCode::usage, "HEXAD_FAULT: step ", f->step, " does not exist; expected a step from 1 to ", steps);
  if (std::ranges::any_of(tensors, [&](const std::string& t) { return t.find(f->point) != std::string::npos; })) return;
  std::vector<std::string> near = tensors;
  std::ranges::stable_sort(near, {}, [&](const std::string& t) { return config::edit_distance(f->point, t); });
  near.resize(std::min<size_t>(near.size(), 3));
  fail(ExitCode::usage, "HEXAD_FAULT: no tensor's name contains '", config::shown(f->point),
       "', expected a part of a name; near: ", config::join(std::vector<std::string_view>(near.begin(), near.end())));
}

io::FaultHook save_fault_from_environment(int rank) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || f->point.empty() || f->point == "step") return {};
  return [f = *f](std::string_view point) {
    if (point != f.point) return;
    end_this_rank(f);
    if (f.kind == "full") fail(ExitCode::resource, "no space left on device (injected at ", point, ")");
  };
}

}  // namespace hexad::train
