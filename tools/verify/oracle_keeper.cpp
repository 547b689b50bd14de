#include "tools/verify/oracle_keeper.h"

#include "tools/verify/outcome_text.h"

namespace hexad::verify {

using namespace base;

OracleKeeper::OracleKeeper(Run run, double seconds)
    : seconds_(seconds),
      worker_([run = std::move(run)](const std::string& request) { return text_of(run(variant_of(request))); }) {}

Outcome OracleKeeper::run(const Variant& variant) {
  const Isolated result = worker_.ask(request_of(variant), seconds_);
  if (result.failure.empty()) return outcome_from_json(result.text, variant);
  if (result.code) fail(*result.code, result.failure);
  fail(ExitCode::numeric, "the oracle (subject=", variant["subject"],
       " on one rank in f64 on the CPU) failed: ", result.failure);
}

}  // namespace hexad::verify
