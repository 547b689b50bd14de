#include "framework/data/input_files.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/path_problem.h"
#include "framework/data/binary_kind.h"
#include "framework/data/byte_stream.h"
#include "framework/data/file.h"
#include "framework/data/input_problems.h"
#include "framework/data/prepared_folder.h"

namespace hexad::data {
using namespace base;
namespace {

namespace fs = std::filesystem;
using Status = struct stat;
using Identity = std::pair<uint64_t, uint64_t>;  // device and inode; they identify a file that has several names

Identity identity_of(const Status& status) { return {status.st_dev, status.st_ino}; }

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// The patterns of one option, and a record of the patterns that have matched.
class Patterns {
 public:
  Patterns(std::string option, const std::vector<std::string>& patterns) : option_(std::move(option)) {
    for (const std::string& p : patterns) given_.push_back({p, p, p.ends_with('/')});
    for (Given& g : given_) {
      g.pattern = without_slash(g.pattern);
      while (g.pattern.starts_with("./")) g.pattern.erase(0, 2);
    }
  }

  bool empty() const { return given_.empty(); }

  /// Returns true if any pattern matches, and records all patterns that match. `path` is the path of a file or folder.
  /// `below` is the part of the path below the input.
  bool match(const std::string& path, const std::string& below, bool folder) {
    bool any = false;
    for (Given& g : given_) {
      if (g.folders_only && !folder) continue;
      if (!matches(g.pattern, path, below)) continue;
      g.idle = false;
      any = true;
    }
    return any;
  }

  void add_idle(std::vector<std::string>& idle) const {
    for (const Given& g : given_)
      if (g.idle) idle.push_back(cat(option_, " ", g.text));
  }

 private:
  struct Given {
    std::string text, pattern;
    bool folders_only = false;
    bool idle = true;
  };

  static bool matches(const std::string& pattern, const std::string& path, const std::string& below) {
    const auto is = [](const std::string& p, const std::string& text) {
      return ::fnmatch(p.c_str(), text.c_str(), 0) == 0;
    };
    if (pattern.find('/') == pattern.npos) return is(pattern, fs::path(below).filename().string());
    if (pattern.starts_with("**/") && is(pattern.substr(3), below)) return true;
    return is(pattern, below) || is(pattern, path);
  }

  std::string option_;
  std::vector<Given> given_;
};

class Finder {
 public:
  explicit Finder(const InputRules& rules)
      : rules_(rules), include_("--include", rules.include), exclude_("--exclude", rules.exclude) {
    Status status{};
    if (::stat(rules.output.c_str(), &status) == 0) output_ = identity_of(status);
  }

  InputFiles find() {
    for (size_t i = 0; i < rules_.inputs.size(); ++i) take_input(i);
    // Follows links last, so a file that is also found without a link keeps the path without the link.
    for (size_t i = 0; i < links_.size(); ++i) follow(Entry(links_[i]));
    problems_.throw_if_any();
    std::ranges::sort(taken_, {}, [](const Taken& t) { return std::tie(t.input, t.file.path); });
    for (Taken& t : taken_) found_.taken.push_back(std::move(t.file));
    std::ranges::sort(found_.skipped, {}, [](const SkippedFile& s) { return std::tie(s.why, s.path); });
    include_.add_idle(found_.idle_patterns);
    exclude_.add_idle(found_.idle_patterns);
    if (found_.taken.empty()) refuse_nothing();
    return std::move(found_);
  }

 private:
  /// An input, or a file or folder found in a folder.
  struct Entry {
    size_t input;  // index of the input through which the file was found
    std::string path;
    std::string below;    // part of `path` below the input; the file's name if the file itself is an input
    bool named = false;   // true if the file itself is an input
    bool linked = false;  // true if the file was found through a link in a folder
  };
  struct Taken {
    size_t input;
    InputFile file;
  };

  void skip(const Entry& entry, SkipReason why, std::string what = {}, std::string_view remedy = {}) {
    found_.skipped.push_back({entry.path, why, std::move(what), std::string(remedy)});
  }
  void skip_folder(const Entry& entry, SkipReason why) { found_.skipped.push_back({entry.path + "/", why}); }

  void take_input(size_t number) {
    const std::string& input = rules_.inputs[number];
    Status status{};
    if (::stat(input.c_str(), &status) != 0)
      return problems_.add(ExitCode::usage, cat(input, ": ", system_reason(input, errno, "file or folder")));
    if (in_output(S_ISDIR(status.st_mode) ? input + "/x" : input)) return skip({number, input, ""}, SkipReason::output);
    const std::string path = without_slash(input);
    const Entry entry{number, path, fs::path(path).filename().string(), true};
    if (exclude_.match(path, entry.below, S_ISDIR(status.st_mode))) return skip(entry, SkipReason::excluded);
    if (S_ISDIR(status.st_mode)) return enter({number, path, "", true}, status);
    if (S_ISREG(status.st_mode)) return take(entry, status);
    problems_.add(ExitCode::usage, cat(input, ": is not a regular file but ", kind_of_file(status.st_mode)),
                  {"write the data to a file first, because inputs are read several times"});
  }

  void enter(const Entry& folder, const Status& status) {
    if (identity_of(status) == output_) return skip_folder(folder, SkipReason::output);
    const auto [before, is_new] = folders_.try_emplace(identity_of(status), folder.path);
    if (is_new) return list(folder);
    if (folder.linked) return skip(folder, SkipReason::same_file, "as " + before->second);
    refuse_twice(folder, before->second);
  }

  void list(const Entry& folder) {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder.path, error), end; !error && at != end; at.increment(error))
      names.push_back(at->path().filename().string());
    if (error)
      return problems_.add(ExitCode::data, cat(folder.path, ": cannot be listed: ", error.message()),
                           {"to skip files and folders, pass --exclude PATTERN"});
    std::ranges::sort(names);
    const bool prepared = std::ranges::find(names, train_file_name) != names.end();
    for (const std::string& name : names) {
      const bool of_dataset = prepared && std::ranges::find(prepared_file_names, name) != prepared_file_names.end();
      look_at({folder.input, (fs::path(folder.path) / name).string(),
               folder.below.empty() ? name : folder.below + "/" + name, false, folder.linked},
              of_dataset);
    }
  }

  /// Takes, enters or skips `entry`. `of_dataset` is true for the files of a dataset in a prepared folder. Without
  /// --binary, such files are skipped, because the tokenizer and the summary would otherwise be taken as text.
  void look_at(const Entry& entry, bool of_dataset) {
    Status status{};
    if (::lstat(entry.path.c_str(), &status) != 0) return unreadable(entry, errno);
    const bool folder = S_ISDIR(status.st_mode);
    const auto leave_out = [&](SkipReason why) { return folder ? skip_folder(entry, why) : skip(entry, why); };
    if (fs::path(entry.path).filename().string().starts_with('.')) return leave_out(SkipReason::hidden);
    if (exclude_.match(entry.path, entry.below, folder)) return leave_out(SkipReason::excluded);
    if (folder) return enter(entry, status);
    if (of_dataset && !rules_.binary) return skip(entry, SkipReason::binary, "prepared dataset");
    if (S_ISLNK(status.st_mode)) return look_at_link(entry);
    take(entry, status);
  }

  void look_at_link(const Entry& entry) {
    if (rules_.follow_links) return links_.push_back({entry.input, entry.path, entry.below, false, true});
    skip(entry, SkipReason::link, "-> " + fs::read_symlink(entry.path, ignored_).string());
  }

  void follow(const Entry& link) {
    Status status{};
    if (::stat(link.path.c_str(), &status) != 0)
      return skip(link, SkipReason::broken_link, system_reason(link.path, errno, "file"));
    if (S_ISDIR(status.st_mode)) return enter(link, status);
    take(link, status);
  }

  /// Adds a file, skips it, or reports that it is given twice.
  void take(const Entry& file, const Status& status) {
    if (!include_.empty() && !include_.match(file.path, file.below, false)) return skip(file, SkipReason::not_included);
    if (!S_ISREG(status.st_mode)) return skip(file, SkipReason::special, std::string(kind_of_file(status.st_mode)));
    if (const auto before = files_.find(identity_of(status)); before != files_.end()) {
      if (!file.linked && (file.named || before->second.named)) return refuse_twice(file, before->second.path);
      return skip(file, SkipReason::same_file, "as " + before->second.path);
    }
    files_.emplace(identity_of(status), file);
    take_text(file);
  }

  void take_text(const Entry& file) {
    try {
      const ReadFile opened(file.path);
      const BinaryKind kind =
          rules_.binary ? BinaryKind{} : binary_kind(head_of(*open_stream(file.path), binary_head_bytes));
      if (!kind) return taken_.push_back({file.input, {file.path, opened.size()}});
      if (!file.named) return skip(file, SkipReason::binary, std::string(kind.name), kind.remedy);
      problems_.add(
          ExitCode::data, cat(file.path, ": is not text but ", kind.with_article()),
          {kind.remedy.empty() ? "" : cat("to extract its text: ", kind.remedy), std::string(leave_out_remedy)});
    } catch (const Error& error) {
      problems_.add(error.code(), error.what(), {"to skip files and folders, pass --exclude PATTERN"});
    }
  }

  bool in_output(const std::string& path) {
    if (!output_) return false;
    Status status{};
    for (fs::path above = fs::weakly_canonical(path, ignored_).parent_path();; above = above.parent_path()) {
      if (::stat(above.c_str(), &status) == 0 && identity_of(status) == output_) return true;
      if (above == above.parent_path()) return false;
    }
  }

  void unreadable(const Entry& entry, int error) {
    problems_.add(ExitCode::data, cat(entry.path, ": cannot be read: ", std::strerror(error)),
                  {"to skip files and folders, pass --exclude PATTERN"});
  }

  void refuse_twice(const Entry& entry, const std::string& before) {
    problems_.add(ExitCode::usage,
                  cat(entry.path, ": is given twice by --input", entry.path == before ? "" : ", also as " + before),
                  {"name each input once; otherwise its text would be in the dataset twice"});
  }

  [[noreturn]] void refuse_nothing() const {
    const bool output =
        std::ranges::all_of(found_.skipped, [](const SkippedFile& s) { return s.why == SkipReason::output; });
    if (output && !found_.skipped.empty())
      fail(ExitCode::usage, rules_.output,
           ": is the --output folder, which is not read, and --input has no other files; expected text files outside "
           "the --output folder");
    std::string skipped;
    for (const std::string& line : lines_of_skipped(found_)) skipped += "\n  " + line;
    const auto inputs = std::ssize(rules_.inputs), named = std::min<std::ptrdiff_t>(inputs, 3);
    std::string names = inputs == 0 ? "no input" : rules_.inputs.front();
    for (std::ptrdiff_t i = 1; i < named; ++i) names += ", " + rules_.inputs[i];
    if (named < inputs) names += cat(" and ", counted(inputs - named, "other input"));
    fail(ExitCode::data, names, inputs > 1 ? ": contain" : ": contains", " no file to prepare",
         skipped.empty() ? "; expected at least one text file" : "; not taken:", skipped);
  }

  const InputRules& rules_;
  Patterns include_, exclude_;
  std::optional<Identity> output_;
  std::map<Identity, std::string> folders_;  // path at which a folder was first found, by identity
  std::map<Identity, Entry> files_;
  std::vector<Entry> links_;  // links to follow at the end
  std::vector<Taken> taken_;
  InputProblems problems_;
  InputFiles found_;
  std::error_code ignored_;
};

}  // namespace

int64_t InputFiles::bytes() const {
  int64_t sum = 0;
  for (const InputFile& file : taken) sum += file.bytes;
  return sum;
}

int64_t InputFiles::with_text() const { return std::ranges::count_if(taken, &InputFile::has_text); }

InputFiles find_inputs(const InputRules& rules) { return Finder(rules).find(); }

}  // namespace hexad::data
