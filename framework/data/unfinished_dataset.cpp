#include "framework/data/unfinished_dataset.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "framework/base/atomic_file.h"
#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/lock_problem.h"
#include "framework/base/path_problem.h"
#include "framework/data/file.h"
#include "framework/data/prepared_folder.h"

namespace hexad::data {
using namespace base;
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* journal_name = "journal.json";
constexpr const char* lock_name = "lock";
constexpr int64_t largest_journal = int64_t{1} << 30;

std::vector<std::string_view> part_names(size_t parts) {
  std::vector<std::string_view> names{train_file_name};
  if (parts > 1) names.push_back(heldout_file_name);
  return names;
}

// Removes the files of a preparation except its lock, including unfinished files of killed processes. Keeps all other
// files, which may belong to the user.
void remove_own_files(const std::string& folder) {
  std::vector<fs::path> own;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("shard-") || name.starts_with(journal_name) || name.starts_with(tokenizer_file_name))
      own.push_back(at->path());
  }
  for (const fs::path& path : own)
    fs::remove(path, error);  // a file that cannot be removed is harmless, or is overwritten later
}

std::string read_journal(const std::string& folder) {
  return read_file((fs::path(folder) / journal_name).string(), largest_journal);
}

// Returns the number of documents in all shards of a journal.
int64_t documents_in(const Json& journal) {
  int64_t sum = 0;
  for (const Json& entry : journal.at("shards")) sum += entry.at("documents").get<int64_t>();
  return sum;
}

}  // namespace

void remove_leftover_shards(const std::string& output, Digest request) {
  const std::string folder = (fs::path(output) / unfinished_folder_name).string();
  try {
    if (Json::parse(read_journal(folder)).at("request") != request.to_string()) return;
    remove_own_files(folder);
    std::error_code ignored_error;
    fs::remove(fs::path(folder) / lock_name, ignored_error);
    fs::remove(folder, ignored_error);  // fails if the folder contains other files
  } catch (const Error&) {              // there is no readable journal, so there are no complete shards
  } catch (const Json::exception&) {
  }
}

UnfinishedDataset::UnfinishedDataset(const PrepareOptions& options, Digest request)
    : output_(options.output),
      folder_((fs::path(output_) / unfinished_folder_name).string()),
      request_(request),
      settings_(settings_json(options)) {
  std::error_code error;
  made_output_ = !fs::exists(output_, error);
  fs::create_directories(output_, error);
  if (error) fail(creation_exit_code(error), output_, ": cannot be created: ", error.message());
  constexpr int max_tries = 10;
  for (int tries = 0; tries < max_tries && !holds_lock(); ++tries) {
    fs::create_directories(folder_, error);
    if (error) fail(creation_exit_code(error), folder_, ": cannot be created: ", error.message());
    lock();
  }
  if (!holds_lock())
    fail(ExitCode::resource, in(lock_name), ": was removed ", max_tries,
         " times before it could be locked; expected no other process to prepare ", output_);
  try {
    load(options);
  } catch (...) {
    unlock();
    throw;
  }
  if (shards_.empty()) remove_own_files(folder_);
}

UnfinishedDataset::~UnfinishedDataset() {
  const bool unused = finished_ || shards_.empty();
  if (unused) remove_own_files(folder_);
  unlock();  // unlocks first, because a removed file remains in its folder on NFS until it is closed
  if (!unused) return;
  std::error_code ignored_error;
  fs::remove(folder_, ignored_error);                    // fails if the folder contains other files
  if (made_output_) fs::remove(output_, ignored_error);  // fails if the folder is not empty
}

// True if the locked file still has its name. A process that ends removes the file, possibly between open() and flock()
// of this process.
bool UnfinishedDataset::holds_lock() const {
  struct stat locked {};
  struct stat named {};
  return lock_ >= 0 && ::fstat(lock_, &locked) == 0 && ::stat(in(lock_name).c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

void UnfinishedDataset::lock() {
  if (lock_ >= 0) ::close(lock_);
  // Locks a file and not the folder, because NFS grants an exclusive lock only to a descriptor that may write.
  lock_ = ::open(in(lock_name).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (lock_ < 0 && errno == ENOENT) return;  // a process that ended has removed the folder
  if (lock_ < 0) fail(ExitCode::resource, in(lock_name), ": cannot be opened: ", std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  const LockProblem problem = lock_problem(error);
  if (problem == LockProblem::no_locks) return;
  ::close(lock_);
  if (problem == LockProblem::other)
    fail(ExitCode::resource, in(lock_name), ": cannot be locked: ", std::strerror(error), lock_hint(error));
  fail(ExitCode::usage, folder_,
       ": another `hexad prepare` writes to this --output; wait for it, or choose another --output");
}

void UnfinishedDataset::unlock() {
  std::error_code ignored_error;
  fs::remove(in(lock_name), ignored_error);
  ::close(lock_);
}

void UnfinishedDataset::load(const PrepareOptions& options) {
  if (file_problem(in(journal_name)) == "no such file") return;  // no shard is complete
  const auto lose = [&](const std::string& problem) {
    damage_ = documents() == 0 ? cat(problem, "; all documents of an interrupted run were encoded again")
                               : cat(problem, "; the first ", counted(documents(), "document"),
                                     " of an interrupted run remained, and all later documents were encoded again");
  };
  try {
    const std::string text = read_journal(folder_);
    const Json json = Json::parse(text);
    const int64_t all = documents_in(json);
    if (json.at("request") != request_.to_string()) {
      if (options.force || all == 0) return;
      fail(ExitCode::usage, folder_, ": an interrupted `hexad prepare` has encoded ", counted(all, "document"),
           " here, but from different text or with different options. Differences: ", differences_to(text, options),
           ". To continue that run, restore its text and options. To start over, choose another --output, or discard "
           "these documents with --force");
    }
    if (file_problem(tokenizer_path()) == "no such file")
      fail(ExitCode::data, tokenizer_path(), ": no such file, expected the tokenizer of the interrupted run");
    const Digest tokenizer = load_tokenizer(tokenizer_path())->fingerprint();
    for (const Json& entry : json.at("shards")) {
      Shard shard;
      shard.documents = entry.at("documents").get<int64_t>();
      shard.parts = entry.at("parts").get<std::vector<std::string>>();
      require_sound(shard, shards_.size(), tokenizer);
      shards_.push_back(std::move(shard));
    }
  } catch (const ReadError& error) {
    if (!options.force) throw;  // the files may be sound
    lose(error.what());
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    lose(error.what());
  } catch (const Json::exception& error) {
    lose(cat(in(journal_name), ": is damaged: ", error.what()));
  }
}

void UnfinishedDataset::require_sound(const Shard& shard, size_t number, Digest tokenizer) const {
  if (shard.documents < 1 || shard.parts.empty() || shard.parts.size() > 2)
    fail(ExitCode::data, in(journal_name), ": shard ", number, " has ", counted(shard.documents, "document"), " in ",
         counted(std::ssize(shard.parts), "part"), ", expected at least 1 document, in 1 or 2 parts");
  const auto names = part_names(shard.parts.size());
  int64_t documents = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string path = shard_path(names[i], number);
    if (file_problem(path) == "no such file")
      fail(ExitCode::data, path, ": no such file, expected a part of an encoded shard");
    const TokenDataset part(path);
    if (part.fingerprint().to_string() != shard.parts[i] || part.tokenizer() != tokenizer)
      fail(ExitCode::data, path, ": has fingerprint ", part.fingerprint(), " and tokenizer fingerprint ",
           part.tokenizer(), ", expected ", shard.parts[i], " (", journal_name, ") and ", tokenizer);
    documents += part.documents();
  }
  if (documents != shard.documents)
    fail(ExitCode::data, in(journal_name), ": shard ", number, " has ", counted(shard.documents, "document"),
         ", expected ", documents, ", the number in its parts");
}

int64_t UnfinishedDataset::documents() const {
  int64_t sum = 0;
  for (const Shard& shard : shards_) sum += shard.documents;
  return sum;
}

std::string UnfinishedDataset::in(const std::string& name) const { return (fs::path(folder_) / name).string(); }

std::string UnfinishedDataset::tokenizer_path() const { return in(std::string(tokenizer_file_name)); }

std::string UnfinishedDataset::shard_path(std::string_view part, size_t number) const {
  return in(cat("shard-", number, "-", part));
}

void UnfinishedDataset::complete_shard(int64_t documents, std::vector<std::string> parts) {
  shards_.push_back({documents, std::move(parts)});
  Json shards = Json::array();
  for (const Shard& shard : shards_) shards.push_back({{"documents", shard.documents}, {"parts", shard.parts}});
  const Json json = {
      {"request", request_.to_string()}, {"settings", Json::parse(settings_)}, {"shards", std::move(shards)}};
  write_file(in(journal_name), json.dump(1) + "\n");
}

ShardWriter::ShardWriter(UnfinishedDataset& unfinished, const Tokenizer& tokenizer, Options options)
    : unfinished_(unfinished), tokenizer_(tokenizer), options_(options) {}

void ShardWriter::add(const EncodedDocument& document) {
  if (!train_) {
    const auto begin = [&](std::optional<TokenDatasetWriter>& writer, std::string_view part) {
      writer.emplace(unfinished_.shard_path(part, unfinished_.shards()), tokenizer_.vocab_size(),
                     tokenizer_.fingerprint(), options_.loss_mask);
    };
    begin(train_, train_file_name);
    if (options_.held_out) begin(held_out_, heldout_file_name);
  }
  TokenDatasetWriter& writer = document.held_out && held_out_ ? *held_out_ : *train_;
  writer.add_document(document.ids, document.text_bytes, document.loss_mask);
  ++documents_;
  bytes_ += document.text_bytes;
  if (bytes_ >= options_.shard_bytes) complete();
}

void ShardWriter::finish() {
  if (train_) complete();
}

void ShardWriter::complete() {
  std::vector<std::string> parts{train_->finish().to_string()};
  if (held_out_) parts.push_back(held_out_->finish().to_string());
  train_.reset(), held_out_.reset();
  unfinished_.complete_shard(std::exchange(documents_, 0), std::move(parts));
  bytes_ = 0;
}

PreparedPart ShardWriter::join(std::string_view part, const std::string& path) const {
  TokenDatasetWriter writer(path, tokenizer_.vocab_size(), tokenizer_.fingerprint(), options_.loss_mask);
  PreparedPart sum;
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;
  for (size_t number = 0; number < unfinished_.shards(); ++number) {
    const TokenDataset shard(unfinished_.shard_path(part, number),
                             DatasetOpenOptions{.check = DatasetCheck::structure});
    int64_t text_bytes = shard.text_bytes();  // a dataset records only the sum over its documents
    for (int64_t d = 0; d < shard.documents(); ++d) {
      const int64_t begin = shard.offsets()[d];
      ids.resize(shard.offsets()[d + 1] - begin);
      loss_mask.resize(options_.loss_mask ? ids.size() : 0);
      shard.read_ids(begin, ids);
      if (options_.loss_mask) shard.read_loss_mask(begin, loss_mask);
      writer.add_document(ids, std::exchange(text_bytes, 0), loss_mask);
    }
    sum.documents += shard.documents();
    sum.tokens += shard.tokens();
    sum.text_bytes += shard.text_bytes();
  }
  sum.fingerprint = writer.finish().to_string();
  return sum;
}

}  // namespace hexad::data
