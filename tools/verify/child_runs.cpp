#include "tools/verify/child_runs.h"

#include <chrono>
#include <filesystem>

#include "tools/verify/outcome_text.h"

namespace hexad::verify {

using namespace base;

const Sabotage& ChildRuns::plain() {
  static const Sabotage none;
  return none;
}

ChildRuns::ChildRuns(const Subject& subject, OracleOf oracle_of, ThreadRuns how, const Sabotage& sabotage)
    : subject_(subject),
      oracle_of_(std::move(oracle_of)),
      thread_runs_(how),
      sabotage_(sabotage),
      worker_([this](const std::string& request) { return answer(request); }) {}

std::string ChildRuns::answer(const std::string& request) const {
  const Variant variant = variant_of(request);
  return text_of(run_in_threads(subject_, oracle_of_(variant), variant, thread_runs_, sabotage_));
}

Outcome ChildRuns::run(const Variant& variant) {
  if (oracles_.insert(&oracle_of_(variant)).second) worker_.end();
  const auto start = std::chrono::steady_clock::now();
  const Isolated result = worker_.ask(request_of(variant), thread_runs_.seconds);
  Outcome outcome{.variant = variant, .error = result.failure};
  if (result.failure.empty()) {
    outcome = outcome_from_json(result.text, variant);
  } else {
    std::filesystem::remove_all(subject_.folder() + "/run");  // the child may have left an incomplete checkpoint
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  // On the CPU, every layout gets a new child. After an error, the device may be unusable for this child.
  if (subject_.recipe().device == device::DeviceKind::cpu || !outcome.error.empty()) worker_.end();
  return outcome;
}

}  // namespace hexad::verify
