// Reasons why flock() fails.
#pragma once

#include <cerrno>
#include <cstdint>

namespace hexad::base {

enum class LockProblem : uint8_t {
  held,      // another holder's lock excludes the caller
  no_locks,  // the file system has no locks
  other      // the file system has locks but cannot lock the file
};

/// Returns the reason for the error `error` (an errno) of flock() with LOCK_NB. Network file systems may return EACCES,
/// like fcntl(), for a lock that is held.
constexpr LockProblem lock_problem(int error) {
  if (error == EWOULDBLOCK || error == EACCES) return LockProblem::held;
  const bool lacks = error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL || error == ENOTTY;
  return lacks ? LockProblem::no_locks : LockProblem::other;
}

/// Returns a hint that follows the system's text for `error` in messages; empty for most errors.
constexpr const char* lock_hint(int error) {
  return error == EBADF ? "; this file system locks only files that this process may write" : "";
}

}  // namespace hexad::base
