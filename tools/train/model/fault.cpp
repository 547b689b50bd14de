#include "tools/train/model/fault.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>

#include "framework/config/words.h"
#include "framework/tensor/host_read.h"

namespace hexad::train {

using namespace autograd;
using namespace base;
using namespace tensor;
namespace {

struct Fault {
  std::string kind;
  int64_t rank = 0, step = 0;
  std::string point;
};

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
  if (!in || comma != ',' || std::find(std::begin(kinds), std::end(kinds), f.kind) == std::end(kinds))
    fail(ExitCode::usage, "HEXAD_FAULT is '", text,
         "'; expected kill|abort|segv|hang|nan|flip|ulp|full|gradient|slow|slow_files|stuck_files@rank,step[,point]");
  if (in.get() == ',') std::getline(in, f.point);
  return f;
}

// In the last parameter, on which the loss of every token depends.
void ruin_a_weight(ModelInstance& instance) {
  Parameter& p = **std::prev(instance.parameters.end());
  const Tensor owned = p.owned_weights();
  kernels::kernels(instance.device())
      .pointwise.fill(instance.context.compute(), owned.slice(0, 0, std::min<int64_t>(1, owned.numel())),
                      std::numeric_limits<double>::quiet_NaN());
}

// The last bit of each of the first `count` weights that this rank owns.
void flip_bits(Parameter& p, ModelInstance& instance, int64_t count) {
  const Tensor owned = p.owned_weights(), known = copy_to_host("fault", owned, instance.context.compute());
  for (int64_t i = 0; i < std::min(count, owned.numel()); ++i)
    *(static_cast<uint8_t*>(known.raw()) + i * size_of(owned.dtype())) ^= 1;
  upload_from(known, owned);
}

void flip_a_bit(ModelInstance& instance) { flip_bits(**std::prev(instance.parameters.end()), instance, 1); }

// Moves all weights as far as rounding may: the effect on a run is the measure of what layouts may differ by.
void move_by_one_ulp(Parameter& p, ModelInstance& instance) {
  flip_bits(p, instance, std::numeric_limits<int64_t>::max());
}

std::chrono::milliseconds milliseconds_of(const Fault& f) {
  int64_t count = 0;
  std::istringstream in(f.point);
  if (!(in >> count) || count < 0)
    fail(ExitCode::usage, "HEXAD_FAULT: ", f.kind, " needs milliseconds in place of '", f.point, "'");
  return std::chrono::milliseconds(count);
}

void end_this_rank(const Fault& f) {
  if (f.kind == "kill") std::raise(SIGKILL);
  if (f.kind == "abort") std::abort();
  if (f.kind == "segv") std::raise(SIGSEGV);
  while (f.kind == "hang") pause();
}

}  // namespace

void inject_fault(int rank, int64_t step, ModelInstance& instance) {
  const auto f = fault_from_environment();
  if (!f || f->rank != rank || f->step != step || (!f->point.empty() && f->point != "step")) return;
  end_this_rank(*f);
  if (f->kind == "flip") flip_a_bit(instance);
  if (f->kind == "ulp") move_by_one_ulp(**instance.parameters.begin(), instance);
  if (f->kind == "nan") ruin_a_weight(instance);
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

void inject_gradient_fault(int rank, int64_t step, ModelInstance& instance) {
  const auto f = fault_from_environment();
  if (!f || f->kind != "gradient" || rank < f->rank || step < f->step) return;
  Stream& stream = instance.context.compute();
  for (const auto& p : instance.parameters)
    if (p->name().find(f->point) != std::string::npos)
      kernels::kernels(instance.device())
          .pointwise.scale(stream, p->owned_gradient(stream), instance.mesh.size(Axis::ep));
}

void check_gradient_fault(const std::vector<std::string>& tensors, int ranks, int64_t steps) {
  const auto f = fault_from_environment();
  if (!f) return;
  if (f->kind != "gradient")
    fail(ExitCode::usage, "HEXAD_FAULT: '", f->kind, "' is not planted by this command; legal here: gradient");
  if (f->rank >= ranks) fail(ExitCode::usage, "HEXAD_FAULT: there is no rank ", f->rank, "; expected 0 .. ", ranks - 1);
  if (f->step > steps) fail(ExitCode::usage, "HEXAD_FAULT: there is no step ", f->step, "; expected 1 .. ", steps);
  if (std::ranges::any_of(tensors, [&](const std::string& t) { return t.find(f->point) != std::string::npos; })) return;
  std::vector<std::string> near = tensors;
  std::ranges::stable_sort(near, {}, [&](const std::string& t) { return config::edit_distance(f->point, t); });
  near.resize(std::min<size_t>(near.size(), 3));
  fail(ExitCode::usage, "HEXAD_FAULT: no tensor's name contains '", config::shown(f->point),
       "'; near: ", config::join(std::vector<std::string_view>(near.begin(), near.end())));
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
