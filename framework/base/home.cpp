#include "framework/base/home.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "framework/base/error.h"

namespace hexad::base {
namespace {

std::string own_home() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return home;
  const passwd* me = ::getpwuid(::geteuid());
  return me != nullptr ? me->pw_dir : "";
}

std::string home_of(const std::string& user) {
  const passwd* found = ::getpwnam(user.c_str());
  return found != nullptr ? found->pw_dir : "";
}

}  // namespace

std::string expand_home(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t end = path.find('/');
  const std::string user = path.substr(1, end == path.npos ? end : end - 1);
  const std::string home = user.empty() ? own_home() : home_of(user);
  if (home.empty())
    fail(ExitCode::usage, "begins with ~", user, ", but ",
         user.empty() ? "HOME is not set; set HOME, or write ./" : cat("there is no user ", user, "; write ./"), path,
         " for a name that begins with ~");
  return home + (end == path.npos ? "" : path.substr(end));
}

}  // namespace hexad::base
