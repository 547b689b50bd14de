// Attempt of one rank at its own part of collective work. The ranks can then exchange their failures, so that none of
// them waits for a rank that has failed.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "framework/base/error.h"

namespace hexad::train {

/// Failure of this rank, which is sent to the other ranks.
struct Failure {
  std::string text{};  // empty: no failure
  base::ExitCode code = base::ExitCode::done;
};

/// Calls `work` and returns the failure that its exception reports: for an Error, its own code; for a bug
/// (logic_error), code 1; for lack of memory and other exceptions, `resource`. If `work` is collective, all ranks must
/// get the same exception.
template <class F>
Failure attempted(F&& work) {
  try {
    work();
  } catch (const base::Error& e) {
    return {e.what(), e.code()};
  } catch (const std::bad_alloc&) {
    return {"out of memory", base::ExitCode::resource};
  } catch (const std::logic_error& e) {
    return {base::cat("internal error: ", e.what()), base::ExitCode{1}};
  } catch (const std::exception& e) {
    return {e.what(), base::ExitCode::resource};
  }
  return {};
}

}  // namespace hexad::train
