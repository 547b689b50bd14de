// Problems of the inputs of `hexad prepare`. All are reported together, so a user with forty bad files does not need
// forty attempts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/base/error.h"

namespace hexad::data {

/// Remedy for files that are not text.
inline constexpr std::string_view leave_out_remedy =
    "leave the file out, or pass --binary to take bytes as they are; --exclude PATTERN skips files in folders";

/// Remedy for objects in JSON files that are not valid documents.
inline constexpr std::string_view mend_object_remedy =
    "correct or remove the object, because no option skips single objects; --exclude PATTERN skips files in folders";

class InputProblems {
 public:
  /// Adds the problem `line`, which has the form "FILE: problem". `remedies` are printed after all problems, each only
  /// once.
  void add(base::ExitCode code, const std::string& line, const std::vector<std::string>& remedies = {});
  bool any() const { return !lines_.empty(); }
  /// Throws an Error that lists the first hundred problems if there are any. Its exit code is usage if any problem has
  /// that code, otherwise data.
  void throw_if_any() const;

 private:
  base::ExitCode code_ = base::ExitCode::data;
  std::vector<std::string> lines_, remedies_;
};

}  // namespace hexad::data
